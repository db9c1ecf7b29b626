"""Writes observations.csv, what twelve cameras have seen of a village, and a rough guess of where everything is.

A row is a corner or a point of an edge as a camera found it: with an error of 0.6 pixels, and one in 25 wrong altogether.
start-points.npy and start-cameras.npy are what the adjustment begins with.
"""

import math
import random
import struct
from pathlib import Path

CAMERAS, FOCAL, BEND, NOISE = 12, 900.0, -0.12, 0.6
HERE = Path(__file__).parent
chance = random.Random(18)


def edge(a, b, spacing=0.3):
    n = max(1, round(math.dist(a, b) / spacing))
    return [tuple(p + (q - p) * k / n for p, q in zip(a, b)) for k in range(n)]


def outline(*corners):
    points = []
    for a, b in zip(corners, corners[1:] + corners[:1]):
        points += edge(a, b)
    return points


def house(x, z, width, depth, wall, roof):
    points = []
    corners = [(x, z), (x + width, z), (x + width, z + depth), (x, z + depth)]
    for height in (0.0, wall):
        points += outline(*[(a, height, b) for a, b in corners])
    for a, b in corners:
        points += edge((a, 0.3, b), (a, wall, b))
    ridge = [(x, roof, z + depth / 2), (x + width, roof, z + depth / 2)]
    points += edge(*ridge) + [ridge[1]]
    for (a, b), top in zip(corners, (ridge[0], ridge[1], ridge[1], ridge[0])):
        points += edge(top, (a, wall, b))[1:]
    return points


def tower(x, z, side, wall, top):
    points = []
    corners = [(x, z), (x + side, z), (x + side, z + side), (x, z + side)]
    for height in (0.0, wall / 2, wall):
        points += outline(*[(a, height, b) for a, b in corners])
    tip = (x + side / 2, top, z + side / 2)
    for a, b in corners:
        points += edge((a, 0.3, b), (a, wall, b)) + edge((a, wall, b), tip)[1:]
    return points + [tip]


def tree(x, z):
    points = edge((x, 0.0, z), (x, 1.0, z))
    for k in range(24):
        up, around = 0.95 * (2 * k / 23 - 1), 2.4 * k
        wide = math.sqrt(1 - up * up) * 0.6
        points.append((x + wide * math.cos(around), 1.7 + 0.8 * up, z + wide * math.sin(around)))
    return points


def turned(w, p):
    angle = math.sqrt(sum(a * a for a in w)) + 1e-12
    k = [a / angle for a in w]
    dot = sum(a * b for a, b in zip(k, p))
    cross = (k[1] * p[2] - k[2] * p[1], k[2] * p[0] - k[0] * p[2], k[0] * p[1] - k[1] * p[0])
    c, s = math.cos(angle), math.sin(angle)
    return [c * a + s * b + (1 - c) * dot * d for a, b, d in zip(p, cross, k)]


def looking(eye, goal):
    """The rotation vector of a camera: x to the right, y down, z ahead."""
    z = [b - a for a, b in zip(eye, goal)]
    length = math.dist(eye, goal)
    z = [a / length for a in z]
    x = [z[2], 0.0, -z[0]]
    length = math.hypot(*x)
    x = [a / length for a in x]
    y = [z[1] * x[2] - z[2] * x[1], z[2] * x[0] - z[0] * x[2], z[0] * x[1] - z[1] * x[0]]
    m = [x, y, z]
    angle = math.acos(max(-1.0, min(1.0, (m[0][0] + m[1][1] + m[2][2] - 1) / 2)))
    axis = (m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1])
    return [a * angle / (2 * math.sin(angle)) for a in axis]


def npy(name, rows):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    numbers = [x for row in rows for x in row]
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    (HERE / name).write_bytes(data + struct.pack(f"<{len(numbers)}f", *numbers))


def main():
    # The first four points have been surveyed.
    points = [(-3.0, 0.0, -1.0), (3.5, 0.0, -2.0), (3.0, 0.0, 3.0), (-1.8, 5.6, 2.2)]
    points += house(-3.0, -1.0, 3.2, 2.0, 1.5, 2.5) + house(1.2, -2.0, 2.3, 1.8, 1.4, 2.2)
    points += house(1.0, 1.4, 2.0, 1.6, 1.3, 2.0) + tower(-2.4, 1.6, 1.2, 3.4, 5.6)
    for x, z in ((-0.3, -2.4), (0.3, 3.4), (3.9, 0.6), (-3.9, 1.2)):
        points += tree(x, z)
    cameras = []
    for k in range(CAMERAS):
        around = 2 * math.pi * k / CAMERAS + chance.uniform(-0.1, 0.1)
        eye = [10 * math.cos(around), chance.uniform(3.0, 5.0), 10 * math.sin(around)]
        turn = looking(eye, [chance.uniform(-0.4, 0.4), 1.3, chance.uniform(-0.4, 0.4)])
        cameras.append(turn + eye)
    rows = ["camera,point,u,v"]
    for k, camera in enumerate(cameras):
        for n, point in enumerate(points):
            # From the other side, most of it is hidden.
            if chance.random() < 0.45:
                continue
            x, y, z = turned(camera[:3], [a - b for a, b in zip(point, camera[3:])])
            x, y = x / z, y / z
            bent = FOCAL * (1 + BEND * (x * x + y * y))
            u, v = bent * x + chance.gauss(0, NOISE), bent * y + chance.gauss(0, NOISE)
            if chance.random() < 0.04:
                u, v = u + chance.uniform(-150, 150), v + chance.uniform(-150, 150)
            rows.append(f"{k},{n},{u:.2f},{v:.2f}")
    (HERE / "observations.csv").write_text("\n".join(rows) + "\n")
    npy("start-points.npy", [[a + chance.gauss(0, 0.5) for a in point] for point in points[4:]])
    rough = (0.06,) * 3 + (0.6,) * 3
    npy("start-cameras.npy", [[a + chance.gauss(0, e) for a, e in zip(c, rough)] for c in cameras])
    print(f"{len(points)} points, {len(rows) - 1} observations")


main()
