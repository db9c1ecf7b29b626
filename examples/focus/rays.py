"""Writes rays.csv: the rays by which the lens is judged, of three objects, three fields, three wavelengths and half of the pupil."""

from pathlib import Path

rows = ["object,angle,wavelength,px,py"]
for distance in range(3):
    for angle in (0.0, 1.5, 3.0):
        for wavelength in (0.4861, 0.5876, 0.6563):
            for i in range(4):
                for k in range(7):
                    x, y = i / 3.0, k / 3.0 - 1.0
                    if x * x + y * y <= 1.0 + 1e-9:
                        rows.append(f"{distance},{angle},{wavelength},{x:.4f},{y:.4f}")
Path(__file__).with_name("rays.csv").write_text("\n".join(rows) + "\n")
