"""Models of the Hugging Face Hub, offline: a folder takes the place of the repository."""

import shutil
from types import SimpleNamespace

import pytest
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import read_card

hub = pytest.importorskip("chronode.hub", reason="huggingface_hub is not installed: pip install 'chronode[hub]'")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("hub")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 1, "--output", home / "run")
    chronode("pack", home / "run", "-o", home / "vitals.chronode")
    return home


@pytest.mark.parametrize("source", ["run", "vitals.chronode"])
def test_a_folder(home, tmp_path, source):
    model = hub.HubModel(home / source)
    model.save_pretrained(tmp_path / "repo")
    assert sorted(path.name for path in (tmp_path / "repo").iterdir()) == ["README.md", "model.chronode"]
    assert (tmp_path / "repo/README.md").read_text() == read_card(home / "vitals.chronode")
    loaded = hub.HubModel.from_pretrained(str(tmp_path / "repo")).trained
    data = loaded.series(home / "vitals.csv", labeled=False)
    ours, theirs = (each.predict(data).values for each in (model.trained, loaded))
    assert all((one == other).all() for one, other in zip(ours, theirs, strict=True))
    hub.HubModel(tmp_path / "repo/model.chronode").save_pretrained(tmp_path / "repo")  # onto itself


def test_push_and_pull(home, tmp_path, monkeypatch):
    """The downloaded model is the uploaded one; no network is used."""
    import huggingface_hub

    def upload(self, *, repo_id, folder_path, **others):
        shutil.copytree(folder_path, tmp_path / repo_id)
        return f"https://hub/{repo_id}"

    def create(self, repo_id, **others):
        return SimpleNamespace(repo_id=repo_id)

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload)
    assert hub.HubModel(home / "run").push_to_hub("me/vitals") == "https://hub/me/vitals"
    assert sorted(path.name for path in (tmp_path / "me/vitals").iterdir()) == ["README.md", "model.chronode"]
    monkeypatch.setattr(hub, "hf_hub_download", lambda repo, name, **others: str(tmp_path / repo / name))
    monkeypatch.setattr(huggingface_hub.hub_mixin, "hf_hub_download", lambda *a, **o: str(tmp_path / "nothing.json"))
    (tmp_path / "nothing.json").write_text("{}")
    loaded = hub.HubModel.from_pretrained("me/vitals")
    assert loaded.trained.objective.classes == ("ill", "well")


def test_a_damaged_repository(tmp_path):
    (tmp_path / "model.chronode").write_bytes(b"no model")
    with pytest.raises(ValueError, match="model.chronode: this is neither a run folder nor a packed model"):
        hub.HubModel.from_pretrained(str(tmp_path))
