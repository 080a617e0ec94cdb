"""The data folder: secrets are made once, kept, and closed to others; the kubeconfig is what kubectl needs."""

from __future__ import annotations

import base64
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from paddock.base.secrets import Secret
from paddock.embedded.certificates import Certificates, private_file
from paddock.embedded.folder import DataFolder, DataFolderError
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.kube import config as kube_config


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "deep" / "data")
    made.make()
    return made


def test_a_folder_with_files_of_others_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "passwd").write_text("root")
    with pytest.raises(DataFolderError, match="has files of others in it: give --data a folder that is new"):
        DataFolder(tmp_path).make()
    assert [path.name for path in tmp_path.iterdir()] == ["passwd"]


def test_an_empty_folder_one_of_ours_and_one_of_a_release_before_are_taken(tmp_path: Path, folder: DataFolder) -> None:
    (tmp_path / "empty").mkdir()
    DataFolder(tmp_path / "empty").make()
    folder.postgres.mkdir()
    folder.make()
    before = DataFolder(tmp_path / "before")
    before.admin_token()
    before.make()


def test_what_can_be_no_folder_is_said_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (Path("/proc/x"), tmp_path / "file" / "below"):
        with pytest.raises(DataFolderError, match=r"cannot be the data folder .*: give --data another one"):
            DataFolder(root).make()


def test_secrets_survive_a_restart(folder: DataFolder) -> None:
    again = DataFolder(folder.root)
    assert folder.admin_token() == again.admin_token()
    assert folder.signing_key() == again.signing_key()


def test_secrets_differ_between_folders(folder: DataFolder, tmp_path: Path) -> None:
    other = DataFolder(tmp_path / "other")
    other.make()
    assert folder.admin_token() != other.admin_token()
    assert folder.signing_key() != other.signing_key()


def test_secrets_are_readable_by_their_owner_alone_whatever_the_umask(folder: DataFolder) -> None:
    before = os.umask(0)
    try:
        folder.admin_token()
        folder.signing_key()
    finally:
        os.umask(before)
    assert mode(folder.certificates) == 0o700
    assert {mode(path) for path in folder.certificates.iterdir()} == {0o600}


def test_others_may_pass_through_the_folder_but_not_look_into_it(folder: DataFolder) -> None:
    assert mode(folder.root) & 0o066 == 0


def test_making_it_again_changes_nothing(folder: DataFolder) -> None:
    token = folder.admin_token()
    folder.make()
    assert folder.admin_token() == token


def test_the_token_is_long_enough_that_nobody_guesses_it(folder: DataFolder) -> None:
    assert len(folder.admin_token().reveal()) >= 40


def test_the_kubeconfig_holds_the_address_the_authority_and_the_token_and_is_closed_to_others(
    folder: DataFolder,
) -> None:
    certificates = Certificates.ensure(folder.certificates, datetime(2026, 6, 1, tzinfo=UTC))
    write_kubeconfig(
        folder.kubeconfig, url="https://127.0.0.1:8443", authority=certificates.authority, token=Secret("t0ken")
    )
    assert mode(folder.kubeconfig) == 0o600
    told = yaml.safe_load(folder.kubeconfig.read_bytes())
    context = next(each["context"] for each in told["contexts"] if each["name"] == told["current-context"])
    cluster = next(each["cluster"] for each in told["clusters"] if each["name"] == context["cluster"])
    user = next(each["user"] for each in told["users"] if each["name"] == context["user"])
    assert context["namespace"] == "default"
    assert cluster["server"] == "https://127.0.0.1:8443"
    assert base64.b64decode(cluster["certificate-authority-data"]) == certificates.authority.read_bytes()
    assert user == {"token": "t0ken"}


def test_our_own_client_reads_the_kubeconfig_that_we_write(folder: DataFolder) -> None:
    certificates = Certificates.ensure(folder.certificates, datetime(2026, 6, 1, tzinfo=UTC))
    write_kubeconfig(
        folder.kubeconfig, url="https://127.0.0.1:8443", authority=certificates.authority, token=folder.admin_token()
    )
    config = kube_config.from_kubeconfig(folder.kubeconfig)
    assert config.server == "https://127.0.0.1:8443"
    assert config.namespace == "default"


def test_a_secret_is_on_the_disk_before_it_has_its_name_and_so_is_the_name_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named, flushed = tmp_path / "admin.token", list[tuple[str, bool]]()

    def noted(descriptor: int) -> None:
        about = os.fstat(descriptor)
        flushed.append(("folder" if stat.S_ISDIR(about.st_mode) else f"{about.st_size} bytes", named.exists()))

    monkeypatch.setattr(os, "fsync", noted)
    private_file(named, b"secret")
    assert flushed == [("6 bytes", False), ("folder", True)]
