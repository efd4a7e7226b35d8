"""Makes `photo.jpg` and `photo-72x64.rgb`, what torchvision makes of a photograph-like picture,
and `ink.jpg`, a picture in four inks.

Run with the packages of benches/peers/requirements.txt and Pillow; the files were made with
torchvision 0.29.2.
"""

import io
import pathlib

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

HEIGHT, WIDTH = 120, 160
folder = pathlib.Path(__file__).parent

# Noise whose amplitude falls with the frequency, as in photographs.
random = np.random.default_rng(7)
down, right = np.fft.fftfreq(256)[:, None], np.fft.fftfreq(256)[None]
frequency = np.hypot(down, right)
frequency[0, 0] = 1.0


def noise(falloff):
    white = np.fft.fft2(random.normal(size=(256, 256)))
    shaped = np.fft.ifft2(white / frequency**falloff).real
    return shaped / shaped.std()


common = noise(1.5)
picture = np.stack([common + 0.4 * noise(1.7) for _ in range(3)], axis=-1)
picture = np.clip(128 + 50 * picture, 0, 255).astype(np.uint8)[:HEIGHT, :WIDTH]

# Quality 90 with halved color, as cameras and most tools write it.
data = io.BytesIO()
Image.fromarray(picture).save(data, "JPEG", quality=90, subsampling="4:2:0")
(folder / "photo.jpg").write_bytes(data.getvalue())

encoded = torch.frombuffer(bytearray(data.getvalue()), dtype=torch.uint8)
decoded = torchvision.io.decode_jpeg(encoded, mode=torchvision.io.ImageReadMode.RGB)
resized = v2.functional.resize(decoded, [64, 72], antialias=True)
(folder / "photo-72x64.rgb").write_bytes(resized.permute(1, 2, 0).contiguous().numpy().tobytes())

Image.new("CMYK", (24, 16), (51, 153, 204, 0)).save(folder / "ink.jpg", quality=95)
