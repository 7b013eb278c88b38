"""Random resized crop as in torchvision: area 0.08 to 1, ratio 3/4 to 4/3, ten attempts, else the whole image."""

import math
from random import Random

_ATTEMPTS = 10


def draw(height: int, width: int, random: Random) -> tuple[int, int, int, int]:
    """Draws top, left, height and width of a box."""
    for _ in range(_ATTEMPTS):
        area = height * width * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, height - h), random.randint(0, width - w), h, w
    return 0, 0, height, width
