"""The papers' settings: in the words of chronode, complete, and found for the right rows."""

import pytest

import chronode
from chronode.lab.papers import PaperSetting, numbers, setting_for, settings
from chronode.lab.tasks import find_task, tasks
from chronode.training import Settings


def described(setting: PaperSetting) -> str:
    return f"{setting.paper}-{setting.task}-{setting.model}-{setting.source}-{setting.hidden}"


@pytest.mark.parametrize("setting", settings(), ids=described)
def test_settings_are_words_of_create_and_of_training(setting):
    task = find_task(setting.task)
    Settings(**setting.training)
    about_words = {"embedding_size", "word_dropout", "head_init"}
    network = {name: value for name, value in setting.network.items() if name not in about_words}
    model = "lstm" if setting.model == "others" else setting.model
    layer = chronode.create(model, task.sizes.channels, **{"hidden_size": 8, **network})
    assert layer.hidden_size == network.get("hidden_size", 8)


def test_every_trained_number_of_a_paper_has_a_setting():
    known = {task for task in tasks() if settings(task)}
    for number in numbers():
        if number.task in known and number.model in chronode.models():
            assert setting_for(number.paper, number.task, number.model, number.hidden) is not None, number


@pytest.mark.parametrize(
    ("paper", "task", "model", "hidden", "expected"),
    [
        ("mmrnn", "person-activity", "mmrnn", None, (64, "rmsprop", 0.01, 128, 200)),
        ("mmrnn", "bitstream", "gru-d", None, (64, "rmsprop", 0.005, 256, 500)),
        ("ltc", "person-activity", "ltc", None, (32, "adam", 0.01, 64, 200)),
        ("ltc", "gesture", "ltc", None, (32, "adam", 0.01, 16, 200)),
        ("ltc", "gesture", "lstm", None, (32, "adam", 0.001, 16, 200)),
        ("ltc", "occupancy", "ltc", None, (32, "adam", 0.005, 16, 200)),
        ("irnn", "har-2", "irnn", None, (80, "adam", 0.01, 128, None)),
        ("ernn", "har-2", "ernn", None, (80, "adam", 0.01, 128, None)),
        ("ernn", "ptb", "ernn", None, (256, "adam", None, None, None)),
        ("unicornn", "psmnist", "unicornn", 256, (256, "adam", 2.51e-3, 32, 2600)),
        ("unicornn", "psmnist", "unicornn", 128, (128, "adam", 1.14e-3, 64, 2600)),
        ("unicornn", "psmnist", "lstm", 128, (128, "adam", 1.14e-3, 64, 2600)),
        ("unicornn", "lorenz96", "cornn", 64, (64, None, None, None, None)),
    ],
)
def test_numbers_of_the_papers(paper, task, model, hidden, expected):
    found = setting_for(paper, task, model, hidden)
    values = {**found.training, **found.network_for(model)}
    assert (
        tuple(values.get(key) for key in ("hidden_size", "optimizer", "learning_rate", "batch_size", "epochs"))
        == expected
    )


def test_other_models_take_over_shared_settings_only():
    found = setting_for("unicornn", "imdb", "lstm")
    assert found.network_for("lstm") == {"hidden_size": 128, "embedding_size": 100, "word_dropout": 0.65}
    assert "delta_t" in found.network_for("unicornn")
