"""The image is built from the Dockerfile, and its commands start in it as nobody on a read-only root.

No registry is needed: the base is made from Debian's packages and tagged as the Dockerfile's. Its Python is Debian's 3.11,
and it trusts what this machine trusts. A container here is a chroot on a read-only mount, under the image's own user.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kube.kept import kept

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text()
BASE = re.findall(r"^FROM ([^\s$]+)", TEXT, re.MULTILINE)[-1]
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
DEBIAN = ("debootstrap", "--variant=minbase", "--include=python3,python3-pip,python3-venv,ca-certificates", "bookworm")
TOOLS = ("buildah", "debootstrap", "unshare", "chroot", "mount")


def run(*words: str | Path, seconds: float = 900, ok: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    assert not ok or done.returncode == 0, f"{words[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


def _unpacked_debian(archive: Path) -> None:
    folder = archive.with_name("debian")
    run(*DEBIAN, folder)
    run("tar", "--create", "--file", archive, "--directory", folder, "--numeric-owner", "--exclude=./proc/*", ".")
    shutil.rmtree(folder)


class Image:
    """The built image, mounted."""

    def __init__(self, folder: Path) -> None:
        self._store = ("buildah", "--storage-driver=vfs", "--root", folder / "store", "--runroot", folder / "run")
        self.folder = folder
        self.mounted = Path()
        self.user = ""
        self.environment: list[str] = []

    def buildah(self, *words: str | Path) -> str:
        return run(*self._store, *words).stdout.strip()

    def build(self) -> None:
        debian = kept("debian.tar", _unpacked_debian, self.folder, of=DEBIAN)
        base = self.buildah("from", "scratch")
        self.buildah("add", "-q", base, debian, "/")
        debian.unlink()
        self.buildah("copy", "-q", base, CERTIFICATES, CERTIFICATES)
        for variable in ("PIP_BREAK_SYSTEM_PACKAGES=1", f"PIP_CERT={CERTIFICATES}", f"SSL_CERT_FILE={CERTIFICATES}"):
            self.buildah("config", "--env", variable, base)
        self.buildah("config", "--env", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", base)
        self.buildah("commit", "-q", base, f"docker.io/library/{BASE}")
        how = ("--pull-never", "--isolation=chroot", "--network=host")
        # The interpreter for Macs is fetched from where nothing of these tests may depend on.
        self.buildah("bud", *how, "--build-arg", "AGENT_BUNDLE=none", "-t", "paddock:test", ROOT)
        container = self.buildah("from", "--pull-never", "paddock:test")
        self.mounted = Path(self.buildah("mount", container))
        config = json.loads(self.buildah("inspect", "--type", "image", "paddock:test"))["OCIv1"]["config"]
        self.user, self.environment = config["User"], config["Env"]

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `paddock …` in it: nothing can be written but /tmp, and the process is nobody."""
        inside = (
            'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && mount -t proc proc "$0/proc" && '
            'mount -t tmpfs -o mode=1777 tmp "$0/tmp" && user="$1" && shift && '
            'exec chroot --userspec="$user" "$0" /usr/bin/env -i "$@"'
        )
        return run(
            "unshare", "--mount", "--pid", "--fork", "sh", "-c", inside, self.mounted, self.user, *self.environment, "timeout", "60", *words,
            seconds=180, ok=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    assert not missing, f"install {', '.join(missing)} (apt-get install buildah debootstrap), and run this as root"
    built = Image(tmp_path_factory.mktemp("image"))
    built.build()
    yield built
    built.buildah("rm", "--all")
    shutil.rmtree(built.folder, ignore_errors=True)


def test_it_is_nobody_on_a_read_only_root(image: Image) -> None:
    assert image.user == "65532:65532"
    said = image.command("sh", "-c", "id -u; touch /opt/paddock/x; touch /x; touch /tmp/x && echo written")
    assert said.stdout.split() == ["65532", "written"]
    assert said.stderr.count("Read-only file system") == 2


@pytest.mark.parametrize("name", ["operator", "dispatch", "poll"])
def test_every_command_of_the_chart_can_be_loaded(image: Image, name: str) -> None:
    said = image.command("paddock", name, "--help")
    assert said.returncode == 0, said.stderr
    assert f"Usage: paddock {name}" in said.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("operator",), "there is no file /tmp/.kube/config"),
        (("dispatch", "--dsn", "postgresql://nobody@127.0.0.1:1/none"), "PADDOCK_GITHUB_APP_ID"),
        (("poll", "--url", "http://127.0.0.1:1", "--jit-file", "/tmp/jit"), "/var/run/secrets/paddock/token"),
    ],
)
def test_every_command_starts_and_names_what_it_lacks(image: Image, words: tuple[str, ...], said: str) -> None:
    done = image.command("paddock", *words)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_an_image_that_was_asked_to_have_no_bundle_says_so(image: Image) -> None:
    assert (image.mounted / "opt/paddock/share").is_dir()
    said = image.command("paddock", "doctor")
    assert "the bundle for Macs is missing" in said.stdout
    assert "make bundle" in said.stdout
