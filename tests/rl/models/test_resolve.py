"""What the model section of a configuration resolves to, and what it refuses."""

import pytest

from rl.config.schema import ModelConfig
from rl.models.errors import ModelError
from rl.models.resolve import resolve_model


def _folder(path, *names):
    path.mkdir()
    for name in names:
        (path / name).write_text("{}")
    return path


def test_a_complete_local_folder_is_returned_absolute(tmp_path, monkeypatch):
    folder = _folder(tmp_path / "m", "config.json", "model.safetensors", "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    assert resolve_model(ModelConfig(source="path", path="m")) == folder


@pytest.mark.parametrize("tokenizer", [["tokenizer.model"], ["vocab.json", "merges.txt"]])
def test_other_tokenizer_formats_count(tmp_path, tokenizer):
    folder = _folder(tmp_path / "m", "config.json", "pytorch_model.bin", *tokenizer)
    assert resolve_model(ModelConfig(source="path", path=str(folder))) == folder


def test_a_folder_without_tokenizer_is_named_with_the_missing_files(tmp_path):
    folder = _folder(tmp_path / "m", "config.json", "model.safetensors", "vocab.json")
    with pytest.raises(ModelError) as caught:
        resolve_model(ModelConfig(source="path", path=str(folder)))
    message = str(caught.value)
    assert str(folder) in message
    assert "tokenizer.json" in message
    assert "vocab.json+merges.txt" in message
    assert "config.json" not in message
    assert "\n" not in message


def test_an_empty_folder_lacks_all_three(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json, weights .*, a tokenizer "):
        resolve_model(ModelConfig(source="path", path=str(_folder(tmp_path / "m"))))


@pytest.mark.parametrize("hub_id", ["owner/name", "name", "Owner/Name-1.5B_v2"])
def test_a_hub_id_is_returned_as_it_is(hub_id, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_model(ModelConfig(source="path", path=hub_id)) == hub_id


@pytest.mark.parametrize("path", ["./absent", "/absent/model", "~/absent-model", "a/b/c", "a/"])
def test_an_absent_local_folder_is_not_mistaken_for_a_hub_id(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="no such folder"):
        resolve_model(ModelConfig(source="path", path=path))


def test_a_file_an_empty_path_and_unknown_sources_are_refused(tmp_path):
    file = tmp_path / "weights.gguf"
    file.write_text("")
    with pytest.raises(ModelError, match=r"weights\.gguf: this is a file"):
        resolve_model(ModelConfig(source="path", path=str(file)))
    with pytest.raises(ModelError, match=r"model\.path is empty"):
        resolve_model(ModelConfig(source="path", path=" "))
    with pytest.raises(ModelError, match=r"model\.source='hub': allowed are package, tiny, path"):
        resolve_model(ModelConfig(source="hub"))
    with pytest.raises(ModelError, match=r"model\.name='other'.*smollm2-135m-instruct"):
        resolve_model(ModelConfig(source="package", name="other"))


def test_package_and_tiny_resolve_to_their_prepared_folders(smollm2_dir, tiny_dir):
    assert resolve_model(ModelConfig()) == smollm2_dir
    assert resolve_model(ModelConfig(source="tiny")) == tiny_dir
