#!/usr/bin/env python3
"""Makes the pictures of the documentation, in docs/images, from the programs on its pages.

    cargo build --release -p pullback-cli
    scripts/pictures.py --pullback target/release/pullback [NAME ...]

Each picture is what a page's own commands write, so a page and its picture agree. It needs Pillow. A photograph is stored
as JPEG, and everything else as PNG, so that no file is larger than 150 kB.
"""

import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs/images"
LARGEST = 150_000

# The picture, the page with the program, the words of its command, and what the command writes.
PICTURES = {
    "fit.jpg": (None, ["fit", "examples/gaussians.slang", "--quiet"], "target/fit/gaussians-compare.png"),
    "tutorial-parameters.png": ("docs/tutorial.md", ["fit", "disc.slang"], "target/fit/disc-parameters.png"),
    "tutorial-blobs.jpg": ("docs/tutorial.md", ["fit", "blobs.slang"], "target/fit/blobs-compare.png"),
    "graphics-sphere.png": ("docs/guides/graphics.md", ["fit", "sphere.slang"], "target/fit/sphere-compare.png"),
    "ripples.jpg": ("docs/precision.md", ["run", "narrow.slang"], "narrow.png"),
    "vision-pendulum.png": ("docs/guides/vision.md", ["fit", "pendulum.slang"], "target/fit/pendulum-fit.png"),
}


# Made by the test of the playground, from the page that scripts/playground.sh has built.
PLAYGROUND = "playground.jpg"


def blocks(text):
    """The language, the name and the text of each block of a page."""
    return re.findall(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)


def prepare(page, folder):
    """Writes a page's files to a folder, and returns its commands."""
    text = (ROOT / page).read_text()
    commands = []
    for source, name in re.findall(r"^<!-- copy: (\S+) (\S+) -->$", text, re.MULTILINE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, folder / name)
    for language, name, block in blocks(text):
        if name and "=" not in name:
            (folder / name).write_text(block)
        elif language == "console":
            commands += [line[2:] for line in block.splitlines() if line.startswith("$ pullback ")]
    return [shlex.split(command)[1:] for command in commands]


def playground(folder):
    """A screenshot of the playground."""
    page = ROOT / "target/site/playground"
    run = ["npm", "--prefix", ROOT / "playground/page", "run", "--silent", "test", "--", page, folder]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    return folder / "fit.png"


def store(source, target, width=None):
    """Stores a picture, at most so wide: as JPEG with some loss, or as PNG without."""
    image = Image.open(source).convert("RGB")
    if width:
        image.thumbnail((width, image.height))
    if target.suffix == ".jpg":
        image.save(target, quality=85, optimize=True)
    else:
        has_few_colors = image.getcolors(256) is not None
        (image.quantize(256, dither=Image.Dither.NONE) if has_few_colors else image).save(target, optimize=True)
    size = target.stat().st_size
    print(f"{target.relative_to(ROOT)}: {image.width} × {image.height}, {size} bytes")
    if size > LARGEST:
        sys.exit(f"{target} is larger than {LARGEST} bytes")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pullback", default="pullback", help="the program (default: the one on the path)")
    names = [*PICTURES, PLAYGROUND]
    options.add_argument("names", nargs="*", metavar="NAME", help=f"pictures to make: {', '.join(names)}")
    options = options.parse_args()
    pullback = shutil.which(options.pullback) or sys.exit(f"there is no {options.pullback}")
    pullback = str(pathlib.Path(pullback).resolve())
    for name in options.names or names:
        if name == PLAYGROUND:
            with tempfile.TemporaryDirectory() as folder:
                store(playground(pathlib.Path(folder)), IMAGES / name, width=1100)
            continue
        page, words, written = PICTURES[name]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if page is None:
                (folder / "examples").symlink_to(ROOT / "examples")
                commands = [words]
            else:
                commands = prepare(page, folder)
                last = next(k for k, command in enumerate(commands) if command[: len(words)] == words)
                # What the command reads is written by the commands before it.
                commands = [c for c in commands[:last] if "--out" in c or "-o" in c] + [commands[last]]
            for command in commands:
                subprocess.run([pullback, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            IMAGES.mkdir(parents=True, exist_ok=True)
            store(folder / written, IMAGES / name)


main()
