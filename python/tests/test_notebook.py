"""What notebooks show, and the cell magic."""

import re
import struct
import zlib

import numpy as np
import pytest

import pullback as pb

def test_modules_show_their_functions():
    m = pb.load_source("[Differentiable] float g(float x, no_diff int n) { return x < 1 ? 0 : n; } // <b>", name="a&b.slang")
    html = m._repr_html_()
    assert "[Differentiable] float g(float x, no_diff int n)" in html and "a&amp;b.slang" in html
    assert "<b>" not in html.replace("<b>Pullback module</b>", "") and "&lt;b&gt;" in html
    assert "- `[Differentiable] float g(float x, no_diff int n)`" in m._repr_markdown_()
    assert "g" in dir(m)


def test_files_show_their_text(tmp_path):
    (tmp_path / "part.slang").write_text("float inner() { return 1; }")
    (tmp_path / "main.slang").write_text("import part;\nfloat outer() { return inner(); }")
    html = pb.load(tmp_path / "main.slang")._repr_html_()
    assert "float outer()" in html and "import" in html and "float inner()" not in html


def test_source_is_highlighted():
    html = pb.DerivativeSource('float3 f(float x) { return x < 1e-3f ? 0 : sin(x); } // "a" & b')._repr_html_()
    assert re.sub("<[^>]*>", "", html) == 'float3 f(float x) { return x &lt; 1e-3f ? 0 : sin(x); } // &quot;a&quot; &amp; b'
    assert html.count("<span") == html.count("</span") == 7


def decoded(png):
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(png):
        n, name = struct.unpack(">I4s", png[at : at + 8])
        data = png[at + 8 : at + 8 + n]
        assert struct.unpack(">I", png[at + 8 + n : at + 12 + n])[0] == zlib.crc32(name + data)
        chunks[name] = data
        at += 12 + n
    width, height, bits, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    channels = {0: 1, 2: 3, 6: 4}[kind]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert bits == 8 and (rows[:, 0] == 0).all()
    return rows[:, 1:].reshape(height, width, channels)


def test_images():
    x = np.array([[[0.0, 0.5, 1.0], [2.0, -1.0, np.nan]]])
    assert decoded(pb.image(x)._repr_png_()).tolist() == [[[0, 128, 255], [255, 0, 0]]]
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert decoded(pb.image(grey)._repr_png_())[:, :, 0].tolist() == grey.tolist()
    assert decoded(pb.image(np.ones((3, 2, 4), np.float16)[::-1])._repr_png_()).shape == (3, 2, 4)
    assert repr(pb.image(grey)) == "<pullback.Image 3×2, 1 channel>"
    for wrong, error in [(np.zeros(3), ValueError), (np.zeros((2, 2, 5)), ValueError), (np.zeros((2, 2), int), TypeError), (np.zeros((0, 2)), ValueError)]:
        with pytest.raises(error):
            pb.image(wrong)


def test_the_cell_magic():
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    assert shell.run_line_magic("load_ext", "pullback") in (None, "already loaded")
    module = shell.run_cell_magic("slang", "decay threads=1 backend='cranelift'", "float f(float x) { return x * 2; }\n")
    assert shell.user_ns["decay"] is module and module.f(2.0) == 4
    assert shell.run_cell_magic("slang", "", "float f() { return 1; }") is shell.user_ns["m"]
    with pytest.raises(pb.CompileError) as caught:
        shell.run_cell_magic("slang", "", "float f( { }")
    # As the cell counts them, whose first line is the magic's.
    assert caught.value.diagnostics[0].line == 2
    with pytest.raises(ValueError, match="`3`"):
        shell.run_cell_magic("slang", "3", "float f() { return 1; }")
    shown, _ = shell.display_formatter.format(module)
    assert "text/html" in shown and "text/markdown" in shown
    assert "image/png" in shell.display_formatter.format(pb.image(np.zeros((2, 2))))[0]
