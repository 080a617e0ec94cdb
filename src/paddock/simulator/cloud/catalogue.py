"""What the simulated cloud rents out: server types, images and prices, close to those of the real one."""

import random
from collections.abc import Iterable

from paddock.base.rng import new_uuid
from paddock.simulator.cloud.state import Image, Offer

__all__ = ["default_images", "default_offers", "fast_types", "label_of"]

_GIGABIT = 1_000_000_000
_M1_AND_M2 = ["M1-M", "M2-M", "M2-L"]
_ALL = [*_M1_AND_M2, "M4-S", "M4-M", "M4-L", "M4-XL"]

# name, family, version, Xcode, server types, beta
_IMAGES: tuple[tuple[str, str, str, str, list[str], bool], ...] = (
    ("macos-ventura-13.6", "Ventura", "13.6", "14", _M1_AND_M2, False),
    ("macos-sonoma-14.6", "Sonoma", "14.6", "15", _M1_AND_M2, False),
    ("macos-sequoia-15.2", "Sequoia", "15.2", "16", [*_M1_AND_M2, "M4-S"], False),
    # As in the real catalogue, the version is newer than the one in the name.
    ("macos-sequoia-15.6", "Sequoia", "15.6.1", "16", _ALL, False),
    ("macos-tahoe-26.0", "Tahoe", "26.0", "26", _ALL, False),
    ("macos-tahoe-26.3", "Tahoe", "26.3", "26", _ALL, False),
    ("macos-tahoe-26.4-beta", "Tahoe", "26.4-beta", "26", _ALL, True),
    ("devos-sequoia-15.6", "DevOS", "15.6.1", "16", ["M2-L"], False),
    ("devos-tahoe-26.3", "DevOS", "26.3", "26", ["M2-L", "M4-M"], False),
    ("fedora-asahi-remix", "Linux", "42", "None", ["M2-L-ASAHI"], True),
)

_WORDS = {"macos": "macOS", "devos": "DevOS"}
# As recorded: an image that is not a type's own is put on it by a delivery of an hour, but for the M2.
_FAST = frozenset({"M2-M", "M2-L", "M2-L-ASAHI"})
_FAST_WITH = frozenset({("macos-sequoia-15.6", "M4-S")})

# type, product, CPU, cores, GHz x10, memory GB, disk GB, GPU, up to 10 Gb/s, cents an hour, euros a month, stock
_OFFERS: tuple[tuple[str, str, str, int, int, int, int, int, bool, int, int, int], ...] = (
    ("M1-M", "Mac Mini M1 - M", "Apple M1", 8, 32, 8, 256, 8, False, 11, 75, 2),
    ("M2-M", "Mac Mini M2 - M", "Apple M2", 8, 35, 16, 256, 10, False, 17, 115, 50),
    ("M2-L", "Mac Mini M2 Pro - L", "Apple M2 Pro", 10, 35, 16, 512, 16, False, 21, 139, 50),
    ("M4-S", "Mac Mini M4 - S", "Apple M4", 10, 44, 16, 256, 10, False, 22, 149, 50),
    ("M4-M", "Mac Mini M4 - M", "Apple M4", 10, 44, 32, 1024, 10, True, 29, 199, 50),
    ("M4-L", "Mac Mini M4 Pro - L", "Apple M4 Pro", 12, 45, 48, 1024, 16, True, 39, 265, 3),
    ("M4-XL", "Mac Mini M4 Pro - XL", "Apple M4 Pro", 14, 45, 64, 2048, 20, True, 49, 335, 0),
)


def label_of(image: str) -> str:
    """As people read it: `macOS Tahoe 26.3`."""
    return " ".join(_WORDS.get(word, word.capitalize()) for word in image.split("-"))


def fast_types(image: str, server_types: Iterable[str]) -> list[str]:
    return [each for each in server_types if each in _FAST or (image, each) in _FAST_WITH]


def default_images(rng: random.Random) -> dict[str, Image]:
    """The image list, oldest first, by id."""
    images: dict[str, Image] = {}
    for name, family, version, xcode, server_types, is_beta in _IMAGES:
        image = Image(
            id=new_uuid(rng),
            name=name,
            family=family,
            version=version,
            label=label_of(name),
            fast_for=fast_types(name, server_types),
            is_beta=is_beta,
            xcode_version=xcode,
            server_types=list(server_types),
        )
        images[image.id] = image
    return images


def default_offers(images: dict[str, Image], default_image: str = "macos-sequoia-15.6") -> dict[str, Offer]:
    """The server types, by name, each with the same default image."""
    image_id = next(image.id for image in images.values() if image.name == default_image)
    return {
        name: Offer(
            name=name,
            product=product,
            cpu=cpu,
            cores=cores,
            frequency=tenths * 100_000_000,
            memory=memory * 1_000_000_000,
            disk=disk * 1_000_000_000,
            gpu=gpu,
            bandwidths=[_GIGABIT * step for step in range(1, 11)] if fast else [_GIGABIT],
            default_image=image_id,
            stock=stock,
            hourly_nanos=cents * 10_000_000,
            monthly_euros=euros,
        )
        for name, product, cpu, cores, tenths, memory, disk, gpu, fast, cents, euros, stock in _OFFERS
    }
