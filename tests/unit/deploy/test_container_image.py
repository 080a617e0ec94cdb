"""The container image, by its text: no container can be built where these tests run."""

import re
import tomllib
from fnmatch import fnmatch

from unit.deploy.rendering import ROOT, of_kind

from paddock.web import runbooks

TEXT = (ROOT / "Dockerfile").read_text()
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
STAGES = [index for index, line in enumerate(LINES) if line.startswith("FROM ")]
LAST = LINES[STAGES[-1] :]


def test_every_base_is_pinned_by_a_tag_that_names_a_version():
    for index in STAGES:
        image = LINES[index].split()[1]
        assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+\$\{BASE_DIGEST\}", image), image


def test_tools_of_the_build_stay_in_the_build():
    assert len(STAGES) == 2
    assert not any("uv " in line or "pip " in line or line.startswith("RUN") for line in LAST)
    assert [line for line in LAST if line.startswith("COPY")] == ["COPY --from=build /opt/paddock /opt/paddock"]


def test_the_dependencies_are_the_locked_ones_without_those_of_development():
    synced = [line for line in LINES if "uv sync" in line]
    assert synced
    assert all("--frozen" in line and "--no-dev" in line for line in synced)


def test_the_image_and_the_checkout_build_with_one_version_of_uv():
    in_image = re.findall(r"pip install .*uv==(\d+\.\d+\.\d+)", TEXT)
    in_checkout = re.findall(r"^UV_VERSION = (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(in_image) == 1
    assert in_image == in_checkout
    assert "uv==$(UV_VERSION)" in (ROOT / "Makefile").read_text()


def test_the_build_backend_is_one_exact_version():
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert re.fullmatch(r"hatchling==\d+\.\d+\.\d+", backend)


def test_it_runs_as_nobody_and_as_the_user_that_the_chart_names():
    (user,) = [line.split()[1] for line in LAST if line.startswith("USER ")]
    (deployment,) = of_kind("Deployment")
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    assert context["runAsUser"] > 0


def test_the_command_is_started_without_a_shell():
    assert 'ENTRYPOINT ["paddock"]' in LAST
    assert all(line.startswith(("ENTRYPOINT [", "CMD [")) for line in LAST if line.startswith(("ENTRYPOINT", "CMD")))


def test_no_secret_is_asked_for_and_none_can_slip_in():
    assert not re.search(r"(?i)secret|token|password|api[_-]?key", TEXT)
    assert [line for line in LINES if line.startswith(("ARG", "ADD"))] == ['ARG BASE_DIGEST=""']
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    rules = [line for line in ignored if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule.removeprefix("!") for rule in rules if rule.startswith("!")}
    copied = {
        source.removeprefix("./")
        for line in LINES
        if line.startswith("COPY") and "--from" not in line
        for source in line.split()[1:-1]
    }
    assert copied == allowed
    assert not any(fnmatch(name, pattern) for name in (".env", ".git", ".paddock") for pattern in allowed)


def test_everything_that_the_build_copies_exists():
    for line in LINES:
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / source).exists() for source in line.split()[1:-1])


def test_the_runbooks_are_where_the_web_page_looks_for_them():
    """The wheel takes them along, so they must be there when the image builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["docs/runbooks"] == str(runbooks._FOLDERS[0].relative_to(ROOT / "src"))
    text = (ROOT / "Dockerfile").read_text()
    assert text.index("COPY docs/runbooks ./docs/runbooks") < text.index("--no-editable")
