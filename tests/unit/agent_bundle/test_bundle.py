"""The bundle for Macs, built on Linux around a stand-in interpreter; and every rule of the check, broken once."""

import io
import json
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_bundle.build import LAUNCHER, BuildError, Built, build
from agent_bundle.check import problems_of
from agent_bundle.interpreter import InterpreterError, fetched, from_archive
from agent_bundle.modules import needed_files
from unit.agent_bundle.made import X86_64, mach_o

TREE = Path(__file__).resolve().parents[3]
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"


def archive(folder: Path, program: bytes | None = None) -> Path:
    """An interpreter archive in the shape of python-build-standalone's, with hand-made native files."""
    path = folder / "cpython-install_only_stripped.tar.gz"
    name = f"python{MINOR}"
    files = {
        f"bin/{name}": program or mach_o(libraries=(f"@executable_path/../lib/lib{name}.dylib",)),
        "bin/pip": b"#!/install/bin/python3\n",
        f"lib/lib{name}.dylib": mach_o(),
        f"lib/{name}/os.py": b"answer = 42\n",
        f"lib/{name}/test/test_os.py": b"",
        f"lib/{name}/site-packages/pip/__init__.py": b"",
        f"lib/{name}/lib-dynload/_ssl.cpython-darwin.so": mach_o(),
        f"include/{name}/patchlevel.h": f'#define PY_VERSION "{MINOR}.9"\n'.encode(),
    }
    with tarfile.open(path, "w:gz") as tar:
        for place, data in files.items():
            info = tarfile.TarInfo(f"python/{place}")
            info.size, info.mode = len(data), 0o755
            tar.addfile(info, io.BytesIO(data))
    return path


def wheels(folder: Path, python: str) -> None:
    assert python == MINOR
    package = folder / "native"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_core.so").write_bytes(mach_o())
    info = folder / "native-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: native\n")
    (info / "RECORD").write_text(f"{folder}\n")


def made(tmp_path: Path, name: str = "bundle.tar.gz", program: bytes | None = None) -> Built:
    source = archive(tmp_path, program)
    return build(
        TREE,
        "darwin-arm64",
        tmp_path / name,
        lambda folder: from_archive(source, "", folder),
        entry="paddock.cli.poll",
        wheels=wheels,
    )


def names(path: Path) -> list[str]:
    with tarfile.open(path) as tar:
        return tar.getnames()


def changed(path: Path, change) -> Path:
    """The bundle with every entry passed through `change(info, data)`, which gives the new pair or None."""
    out = path.with_name("changed.tar.gz")
    with tarfile.open(path) as source, tarfile.open(out, "w:gz") as target:
        for info in source:
            file = source.extractfile(info) if info.isreg() else None
            data = file.read() if file else b""
            if (kept := change(info, data)) is not None:
                info, data = kept
                info.size = len(data) if info.isreg() else 0
                target.addfile(info, io.BytesIO(data))
    return out


def test_a_bundle_for_macs_is_built_on_linux_and_passes_its_check(tmp_path: Path) -> None:
    built = made(tmp_path)
    assert problems_of(built.path, "darwin-arm64", foreign=(str(tmp_path), str(TREE))) == []
    found = names(built.path)
    assert found[0] == "manifest.json"
    assert found[1:] == sorted(found[1:])
    assert LAUNCHER in found
    assert "lib/paddock/cli/poll.py" in found
    assert f"python/lib/python{MINOR}/os.py" in found
    assert not [name for name in found if "pip" in name or "/test/" in name or name.endswith("RECORD")]
    assert [name for name in found if name.endswith(".pyc")]
    assert built.manifest["packages"] == {"native": "1.2"}
    assert built.manifest["python"] == f"{MINOR}.9"


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = made(tmp_path, "a.tar.gz"), made(tmp_path, "b.tar.gz")
    assert first.path.read_bytes() == second.path.read_bytes()


def test_only_modules_that_the_command_needs_are_in_it() -> None:
    found = {path.relative_to(TREE / "src").as_posix() for path in needed_files(TREE / "src", "paddock.cli.poll")}
    assert "paddock/base/clock.py" in found, "an import inside a function counts"
    assert not [name for name in found if "/simulator/" in name or "/hosts/" in name or "/web/" in name]


def test_an_entry_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no_such"):
        build(TREE, "darwin-arm64", tmp_path / "y", lambda _: "3.11.1", entry="paddock.no_such", wheels=lambda *_: None)


def test_an_archive_with_another_checksum_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="expected was 00"):
        from_archive(archive(tmp_path), "00", tmp_path / "python")


def _above(info: tarfile.TarInfo) -> None:
    info.name = "python/../../outside"


def _absolute(info: tarfile.TarInfo) -> None:
    info.name = "/outside"


def _link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname = tarfile.SYMTYPE, "../../../../outside"


def _hard_link(info: tarfile.TarInfo) -> None:
    info.type, info.linkname = tarfile.LNKTYPE, "../outside"


def _device(info: tarfile.TarInfo) -> None:
    info.type = tarfile.CHRTYPE


@pytest.mark.parametrize("change", [_above, _absolute, _link, _hard_link, _device])
def test_without_the_filter_of_newer_pythons_no_entry_leads_out_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[tarfile.TarInfo], None]
) -> None:
    """Debian 12 has Python 3.11.2; `tarfile` has its filter since 3.11.4."""
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    source = archive(tmp_path)
    assert from_archive(source, "", tmp_path / "python") == f"{MINOR}.9"

    def one(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
        if info.name.endswith("os.py"):
            change(info)
        return info, data

    with pytest.raises(InterpreterError, match="leads out of its folder, or is no file"):
        from_archive(changed(source, one), "", tmp_path / "other")


def test_without_that_filter_a_chain_of_links_does_not_lead_out_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    trusting = staticmethod(lambda member, _: member)  # as Python did before it had filters
    monkeypatch.setattr(tarfile.TarFile, "extraction_filter", trusting, raising=False)
    hostile = tmp_path / "hostile.tar"
    with tarfile.open(hostile, "w") as tar:
        for name, link in (("python/deep", "."), ("python/deep/up", "../.."), ("python/up/outside", None)):
            info = tarfile.TarInfo(name)
            if link is not None:
                info.type, info.linkname = tarfile.SYMTYPE, link
            tar.addfile(info)
    with pytest.raises(InterpreterError, match="leads out of its folder"):
        from_archive(hostile, "", tmp_path / "box" / "python")
    assert not (tmp_path / "box" / "outside").exists()


def test_an_interpreter_comes_by_https_only(tmp_path: Path) -> None:
    with pytest.raises(InterpreterError, match="https"):
        fetched("http://files.example/python.tar.gz", "00", tmp_path)


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (mach_o(cpu=X86_64), "is for x86_64, not for arm64"),
        (mach_o(minimum=(27, 0)), "needs macOS 27.0"),
        (mach_o(signed=False), "it has no signature"),
        (mach_o(libraries=("/opt/homebrew/lib/libssl.dylib",)), "is linked to /opt/homebrew/lib/libssl.dylib"),
        (mach_o(search_paths=("/opt/lib",)), "is linked to /opt/lib"),
        (mach_o()[:5000] + b"!" + mach_o()[5001:], "was changed after it was signed"),
        (b"\x7fELF" + bytes(60), "is for Linux"),
    ],
)
def test_a_native_file_that_no_mac_would_run_is_found(tmp_path: Path, program, problem) -> None:
    bundle = made(tmp_path, program=program)
    (found,) = problems_of(bundle.path, "darwin-arm64")
    assert found.startswith(f"python/bin/python{MINOR}: ")
    assert problem in found


def _leading_out(info, data):
    if info.name == LAUNCHER:
        info.name = "../launcher"
    return info, data


def _linking_out(info, data):
    if info.issym():
        info.linkname = "/usr/bin/python3"
    return info, data


def _set_user(info, data):
    info.mode |= 0o4000 if info.name == LAUNCHER else 0
    return info, data


def _owned(info, data):
    info.uid = 501 if info.name == LAUNCHER else 0
    return info, data


def _foreign_script(info, data):
    return info, b"#!/opt/python\n" if info.name == LAUNCHER else data


def _other_target(info, data):
    if info.name == "manifest.json":
        data = json.dumps(json.loads(data) | {"target": "linux-x86_64"}).encode()
    return info, data


def _without_launcher(info, data):
    return None if info.name == LAUNCHER else (info, data)


def _without_manifest(info, data):
    return None if info.name == "manifest.json" else (info, data)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_leading_out, "leads out of the folder"),
        (_linking_out, "out of the folder"),
        (_set_user, "has the mode 4755"),
        (_owned, "belongs to somebody"),
        (_foreign_script, "its first line names /opt/python"),
        (_other_target, "it is for linux-x86_64"),
        (_without_launcher, "in the manifest and not in the bundle"),
        (_without_manifest, "first entry is not manifest.json"),
    ],
)
def test_a_bundle_that_was_tampered_with_is_found(tmp_path: Path, change, problem) -> None:
    found = problems_of(changed(made(tmp_path).path, change), "darwin-arm64")
    assert [each for each in found if problem in each], found


def test_a_bundle_that_is_cut_off_too_large_or_names_the_building_machine_is_found(tmp_path: Path) -> None:
    built = made(tmp_path)
    assert problems_of(built.path, "darwin-arm64", largest=100)[0].startswith("it is 0.")
    assert any(
        "names answer = 42" in each for each in problems_of(built.path, "darwin-arm64", foreign=("answer = 42",))
    )
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(built.path.read_bytes()[:2000])
    assert any("cannot be read" in each for each in problems_of(cut, "darwin-arm64"))
