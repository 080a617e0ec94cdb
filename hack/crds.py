"""Writes the CustomResourceDefinitions of Paddock into deploy/crds, generated from the structs (`make crds`).

The chart's folder `crds`, which Helm installs first, is a link to that one.
"""

from pathlib import Path

from paddock.embedded.definitions import our_definitions
from paddock.kube.crd import to_yaml

FOLDER = Path(__file__).resolve().parent.parent / "deploy" / "crds"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for definition in our_definitions():
        name = f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml"
        (FOLDER / name).write_text(to_yaml(definition), encoding="utf-8")
        print(FOLDER / name)


if __name__ == "__main__":
    main()
