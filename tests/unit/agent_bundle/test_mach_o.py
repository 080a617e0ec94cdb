"""What Linux can prove about a file for the Mac: architecture, oldest macOS, libraries, and an unbroken signature."""

import pytest
from agent_bundle.mach_o import NotMachOError, is_mach_o, slices
from unit.agent_bundle.made import X86_64, fat, mach_o


def test_a_signed_file_is_read() -> None:
    (found,) = slices(
        mach_o(libraries=("/usr/lib/libSystem.B.dylib", "@rpath/x.dylib"), search_paths=("@loader_path",))
    )
    assert found.architecture == "arm64"
    assert found.minimum == (11, 0)
    assert found.libraries == ("/usr/lib/libSystem.B.dylib", "@rpath/x.dylib")
    assert found.search_paths == ("@loader_path",)
    assert found.ad_hoc
    assert found.signature == ""


def test_both_ways_to_name_the_oldest_macos_are_known() -> None:
    assert slices(mach_o(minimum=(12, 3)))[0].minimum == (12, 3)
    assert slices(mach_o(minimum=(10, 15), old_style=True))[0].minimum == (10, 15)


def test_a_changed_page_breaks_the_signature() -> None:
    data = bytearray(mach_o())
    data[5000] ^= 1
    assert slices(bytes(data))[0].signature == "page 1 was changed after it was signed"


def test_a_file_without_a_signature_says_so() -> None:
    assert slices(mach_o(signed=False))[0].signature == "it has no signature"


def test_every_architecture_of_a_fat_file_is_read() -> None:
    found = slices(fat(mach_o(cpu=X86_64), mach_o()))
    assert [part.architecture for part in found] == ["x86_64", "arm64"]
    assert [part.signature for part in found] == ["", ""]


@pytest.mark.parametrize("length", [5, 31, 40, 100])
def test_a_file_that_is_cut_off_is_refused(length) -> None:
    with pytest.raises(NotMachOError):
        slices(mach_o()[:length])


@pytest.mark.parametrize("head", [b"", b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01\x00", b"\xca\xfe\xba\xbe\x00\x00\x00\x41"])
def test_other_files_are_not_taken_for_one(head) -> None:
    assert not is_mach_o(head)
