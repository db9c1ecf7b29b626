#!/usr/bin/env python3
"""Makes the pictures of the gallery, docs/images/gallery, by the commands of its pages.

    pip install pillow
    python3 scripts/gallery-pictures.py [NAME ...]

It needs `pullback` in the path, and prints the processor time of each page's command.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/images/gallery"
GAP = 8


def run(line: str) -> None:
    """Runs a line of a shell in the current folder, which has the examples."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, shell=True, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime:8.1f} s  {line}", flush=True)


def commands(name: str) -> list[str]:
    """The commands of a page that fit."""
    text = (ROOT / f"docs/gallery/{name}.md").read_text()
    return re.findall(r"^\$ ((?:sh|pullback fit) .*)$", text, re.MULTILINE)


def command(name: str) -> str:
    """The first command of a page."""
    return commands(name)[0]


def row(name: str, paths: list[str]) -> None:
    """Writes pictures beside each other; a photograph as `.jpg`, and a drawing as `.png`."""
    parts = [Image.open(path).convert("RGB") for path in paths]
    width = sum(part.width for part in parts) + GAP * (len(parts) - 1)
    sheet = Image.new("RGB", (width, max(part.height for part in parts)), "white")
    x = 0
    for part in parts:
        sheet.paste(part, (x, 0))
        x += part.width + GAP
    if name.endswith(".jpg"):
        sheet.save(PICTURES / name, quality=88, optimize=True)
    else:
        sheet.quantize(256, dither=Image.Dither.NONE).save(PICTURES / name, optimize=True)


def gaussians() -> None:
    run(command("gaussians"))
    row("gaussians.jpg", ["target/fit/gaussians-compare.png"])


def hash_grid() -> None:
    line = command("hash-grid")
    for steps in (10, 50):
        run(f"{line} --steps {steps} --schedule constant --out target/{steps}")
    run(line)
    names = ["target/10/hash-grid.png", "target/50/hash-grid.png", "target/fit/hash-grid.png"]
    row("hash-grid.jpg", [*names, "examples/astronaut-256.png"])


def sdf() -> None:
    run(command("sdf"))
    row("sdf.jpg", ["target/fit/sdf.png"])


def brdf() -> None:
    run(command("brdf"))
    row("brdf.jpg", ["target/fit/brdf.png"])


def path_tracer() -> None:
    line = command("path-tracer")
    run(line)
    still = f"{line} --steps 1 --rate 0 -D SHOWN=256"
    run(f"{still} --out target/start")
    run(f"{still} --out target/found --param @target/fit/path-tracer-parameters.json")
    names = ["target/start/path-tracer.png", "target/found/path-tracer.png"]
    row("path-tracer.jpg", [*names, "examples/path-tracer/room.png"])


def splat3d() -> None:
    run(command("splat3d"))
    folder = "examples/splat3d"
    os.makedirs("target/large", exist_ok=True)
    picture = "--groups 32,32 --bind 'image={\"size\":[256,256]}' --out image=@target/large/scene.png"
    run(f"pullback run {folder}/scene.slang -D CAMERA=16 {picture}")
    pathlib.Path("target/large/camera.csv").write_text("image,camera\nscene.png,16\n")
    names = []
    for count in (200, 600, 1200):
        splats = f"target/fit/splats-{count}.npy"
        order = f"--bind order=zeros:{count * 19} --out order=@target/large/order.npy"
        run(f"pullback run {folder}/grow.slang -D COUNT={count} --entry sort --groups {count},19 --bind splats=@{splats} {order}")
        run(
            f"pullback fit {folder}/splat3d.slang -D COUNT={count} --param splats=@{splats} --steps 1 --rate 0 --quiet"
            f" --bind order=@target/large/order.npy --items images:target/large/camera.csv --out target/large/{count}"
        )
        names.append(f"target/large/{count}/splat3d.png")
    row("splat3d.jpg", [*names, "target/large/scene.png"])


def fitted(name: str, written: dict[str, str]) -> Callable[[], None]:
    """Runs the commands of a page, which write these pictures."""

    def make() -> None:
        for line in commands(name):
            run(line)
        for picture, path in written.items():
            row(picture, [f"target/fit/{path}.png"])

    return make


RECIPES: dict[str, Callable[[], None]] = {
    "gaussians": gaussians,
    "splat3d": splat3d,
    "hash-grid": hash_grid,
    "sdf": sdf,
    "brdf": brdf,
    "path-tracer": path_tracer,
    "texture": fitted("texture", {"texture.jpg": "texture-blocks"}),
    "camera": fitted("camera", {"camera.png": "camera"}),
    "lens": fitted("lens", {"lens.png": "lens"}),
    "dynamics": fitted("dynamics", {"dynamics.png": "predator-prey-fit", "dynamics-pendulum.png": "pendulum-fit"}),
    "cloth": fitted("cloth", {"cloth.jpg": "cloth"}),
    "throw": fitted("throw", {"throw.png": "throw"}),
    "arm": fitted("arm", {"arm.png": "arm"}),
    "focus": fitted("focus", {"focus.png": "focus"}),
    "poisson": fitted("poisson", {"poisson.png": "poisson"}),
    "digits": fitted("digits", {"digits.png": "digits"}),
}


def main() -> None:
    for name in sys.argv[1:] or RECIPES:
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", f"{folder}/examples")
            os.chdir(folder)
            RECIPES[name]()
            os.chdir(ROOT)


if __name__ == "__main__":
    main()
