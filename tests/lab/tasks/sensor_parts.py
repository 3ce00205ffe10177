"""Files for the sensor tasks, and what must hold of the parts made of them: rows, damage, the publishers' sizes."""

from hypothesis import HealthCheck, given, settings
from sensor_checks import damaged, reads_or_tells, rows_of, same_windows

from chronode.training._task import find_task


def in_place_of_data(monkeypatch, module, folder, files):
    """Writes files, texts by name, into `folder`, which the task of `module` then reads in place of its data set."""
    for name, text in files.items():
        (folder / name).write_text(text)
    data = find_task(module.__name__.rpartition(".")[2]).data
    monkeypatch.setattr(module, "folder", {data: folder}.__getitem__)
    return folder


def rows_in_parts(parts, channel=0):
    """The numbers of the rows in training, validation and test, by windows; see `rows_of`."""
    return [rows_of(part, parts.scaler, channel) for part in (parts.train, parts.valid, parts.test)]


def same_parts(parts, x, y, starts, length):
    """Whether training, validation and test are the windows of x and y with these starts."""
    for part, own in zip((parts.train, parts.valid, parts.test), starts, strict=True):
        assert len(part) == len(own)
        same_windows(part, x, y, own, length)


def survives_damage(text, file, read, examples=40):
    """Whether `read` reads `file` or names it, however the text in it is damaged."""

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(damaged(text))
    def check(content):
        file.write_bytes(content)
        reads_or_tells(read, file)

    check()


def check_sizes(name):
    """The parts of a task, which are of the sizes that it tells."""
    task = find_task(name)
    parts, sizes = task.load(), task.sizes
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (sizes.train, sizes.valid, sizes.test)
    assert parts.train.lengths.max() == sizes.steps and parts.train.num_channels == sizes.channels
    assert len(parts.train.classes or ()) == (sizes.classes or 0)
    return parts
