"""The report that `make test-gpu` writes, to be sent back from a machine with a GPU."""

from chronode_bench import gpu_test

XML = """<testsuites><testsuite>
<testcase name="one" time="1.5"/><testcase name="two" time="1"><skipped/></testcase>
<testcase name="three" time="0.5"><failure message="y differs by 0.1">trace</failure></testcase>
</testsuite></testsuites>"""


def test_failed_tests_are_listed_with_their_messages():
    text = "\n".join(gpu_test.tests(XML))
    assert "1 passed, 1 failed, 1 skipped" in text
    assert "### three" in text and "y differs by 0.1" in text


def test_a_model_that_fails_does_not_end_the_report(monkeypatch):
    monkeypatch.setattr(gpu_test, "STEPS", 3)
    monkeypatch.setenv("CHRONODE_CUDA_GRAPHS", "off")
    assert float(gpu_test.milliseconds("mingru", "torch", "cpu")) > 0
    monkeypatch.setattr(gpu_test, "BATCH", -1)
    assert "Error" in gpu_test.milliseconds("mingru", "torch", "cpu")
