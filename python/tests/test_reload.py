"""Files that change, and that vanish."""

import os

import numpy as np
import pytest

import pullback as pb


@pytest.fixture
def files(tmp_path):
    (tmp_path / "part.slang").write_text("float scale() { return 2; }")
    (tmp_path / "main.slang").write_text('import part;\n#include "more.h"\nfloat f(float x) { return x * scale() + MORE; } float g(float x) { return x; }')
    (tmp_path / "more.h").write_text("#define MORE 0\n")
    return tmp_path


def test_without_reload_a_module_stays(files):
    m = pb.load(files / "main.slang")
    assert m.f(3.0) == 6
    (files / "part.slang").write_text("float scale() { return 5; }")
    assert m.f(3.0) == 6 and m["f"](3.0) == 6 and m.g(1.0) == 1
    m.reload()
    assert m.f(3.0) == 15


def test_changes_are_seen(files):
    m = pb.load(files / "main.slang", reload=True)
    f = m.f
    assert m.f(3.0) == 6 and m.f is f
    (files / "part.slang").write_text("float scale() { return 7; }")
    assert m.f(3.0) == 21 and f(3.0) == 6
    (files / "more.h").write_text("#define MORE 100\n")
    assert m.f(3.0) == 121
    (files / "main.slang").write_text("float h(float x) { return -x; }")
    assert m.h(2.0) == -2 and not hasattr(m, "f")
    same = m.h
    os.utime(files / "main.slang", ns=(1, 1))
    assert m.h is not same and m.h(2.0) == -2


def test_changes_of_the_same_length_and_time_are_seen(files):
    m = pb.load(files / "main.slang", reload=True)
    assert m.f(3.0) == 6
    about = (files / "part.slang").stat()
    new = files / "new.slang"
    new.write_text("float scale() { return 9; }")
    os.utime(new, ns=(about.st_atime_ns, about.st_mtime_ns))
    os.replace(new, files / "part.slang")
    assert m.f(3.0) == 27


def test_a_wrong_text_is_told_until_it_is_right(files):
    m = pb.load(files / "main.slang", reload=True)
    f = m.f
    (files / "part.slang").write_text("float scale( {")
    for _ in range(2):
        with pytest.raises(pb.CompileError, match="part.slang"):
            m.f
    assert f(3.0) == 6
    (files / "part.slang").write_text("float scale() { return 4; }")
    assert m.f(3.0) == 12


def test_a_file_that_vanishes(files):
    m, kept = pb.load(files / "main.slang", reload=True), pb.load(files / "main.slang")
    assert m.f(3.0) == 6
    for path in files.iterdir():
        path.unlink()
    with pytest.raises(pb.CompileError, match="main.slang"):
        m.f
    # What was read is still there.
    assert kept.f(3.0) == 6 and kept.g(1.0) == 1
    with pytest.raises(pb.CompileError):
        kept.reload()
    assert kept.f(np.ones(3)).tolist() == [2, 2, 2]


def test_the_working_folder_may_change(files, monkeypatch):
    monkeypatch.chdir(files)
    m, kept = pb.load("main.slang", reload=True), pb.load("main.slang")
    (files / "elsewhere").mkdir()
    (files / "elsewhere" / "part.slang").write_text("float scale() { return 100; }")
    monkeypatch.chdir(files / "elsewhere")
    assert m.f(3.0) == 6 and kept.f(3.0) == 6


def test_texts_reload_their_imports(files):
    m = pb.load_source("import part; float f() { return scale(); }", name=str(files / "text.slang"), reload=True)
    assert m.f() == 2
    (files / "part.slang").write_text("float scale() { return 3; }")
    assert m.f() == 3


def test_files_of_any_encoding_are_read_once(files):
    for data in ["float h() { return 1; } // é".encode("utf-16"), b"\xef\xbb\xbffloat h() { return 1; }", b"float h() { return 1; } // \xe9"]:
        (files / "odd.slang").write_bytes(data)
        m = pb.load(files / "odd.slang", reload=True)
        assert m.h() == 1 and m.h is m.h
