"""Writes pendulum.csv: the angle of a pendulum, as a sensor with noise would log it.

A weight on a rod of 0.82 m is let go at 2.5 rad. Friction of the bearing and of the air slow it down. The log has no
exact times, and the sensor is not mounted exactly upright.
"""

import math
import random
from pathlib import Path

LENGTH, FRICTION, AIR, OFFSET, NOISE = 0.82, 0.11, 0.045, 0.03, 0.02
DT = 1e-4


def change(angle, speed):
    return speed, -9.81 / LENGTH * math.sin(angle) - FRICTION * speed - AIR * speed * abs(speed)


def main():
    noise = random.Random(7)
    angle, speed, t, due = 2.5, 0.0, 0.0, 0.0
    rows = ["t,angle"]
    while len(rows) <= 320:
        if t >= due:
            rows.append(f"{t:.4f},{angle + OFFSET + noise.gauss(0.0, NOISE):.4f}")
            due += 0.05 * noise.uniform(0.8, 1.2)
        # The midpoint rule at a small step, unlike the method of the program that is fitted.
        a, b = change(angle, speed)
        a, b = change(angle + 0.5 * DT * a, speed + 0.5 * DT * b)
        angle, speed, t = angle + DT * a, speed + DT * b, t + DT
    Path(__file__).with_name("pendulum.csv").write_text("\n".join(rows) + "\n")


main()
