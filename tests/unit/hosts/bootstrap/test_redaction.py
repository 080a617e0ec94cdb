import base64

from paddock.base.secrets import Password, Secret
from paddock.hosts.bootstrap import kcpassword
from paddock.hosts.bootstrap.redaction import redactor, tail

PASSWORD = Password("hunter2-marked")
KUBECONFIG = Secret("apiVersion: v1\nusers:\n- name: node\n  user:\n    token: eyJhbGciOi-marked\n")
HIDE = redactor((PASSWORD, KUBECONFIG))


def test_a_secret_is_hidden_in_every_shape_in_which_it_travels():
    shapes = [
        "hunter2-marked",
        base64.b64encode(b"hunter2-marked").decode(),
        kcpassword.encode(PASSWORD).hex(),
        "eyJhbGciOi-marked",
        "    token: eyJhbGciOi-marked",
        base64.b64encode(KUBECONFIG.reveal().encode()).decode(),
    ]
    for shape in shapes:
        shown = tail(f"before {shape} after", HIDE)
        assert shape not in shown
        assert "marked" not in shown
        assert shown.startswith("before")
        assert shown.endswith("after")


def test_a_cut_never_leaves_half_a_secret_in_sight():
    text = "x" * 795 + "hunter2-marked" + "y" * 795
    shown = tail(text, HIDE, characters=800)
    assert "marked" not in shown
    assert "hunter" not in shown


def test_only_the_end_is_kept_and_only_what_can_be_printed():
    shown = tail("\n".join(f"line {n}\x1b[31m\x00" for n in range(100)), HIDE, lines=3)
    assert shown.splitlines() == ["line 97[31m", "line 98[31m", "line 99[31m"]
