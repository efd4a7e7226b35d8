"""Blended outputs of MONAI: python sliding.py > sliding.json (MONAI 1.6.1, torch 2.15.0)."""
import json

import torch
from monai.inferers import sliding_window_inference

inputs = {
    "2d": torch.arange(130, dtype=torch.float32).reshape(1, 1, 10, 13),
    "3d": (torch.arange(7 * 9 * 11) % 17).float().reshape(1, 1, 7, 9, 11),
}


def minus_mean(window):
    """Shows where a window begins and ends."""
    return window - window.mean(dim=tuple(range(2, window.ndim)), keepdim=True)


cases = [("2d", [6, 6], o, m, 0.125) for m in ["constant", "gaussian"] for o in [0.0, 0.25, 0.5]]
cases += [
    ("2d", [6, 5], [0.5, 0.2], "gaussian", [0.125, 0.25]),
    ("2d", [16, 6], 0.25, "gaussian", 0.125),
    ("2d", [15, 15], 0.5, "constant", 0.125),
    ("2d", [0, 6], 0.25, "gaussian", 0.125),
    ("3d", [4, 4, 5], 0.25, "constant", 0.125),
    ("3d", [4, 4, 5], 0.5, "gaussian", 0.125),
    ("3d", [10, 4, 12], [0.25, 0.5, 0.25], "gaussian", 0.125),
    ("3d", [3, 9, 4], [0.0, 0.25, 0.6], "gaussian", [0.2, 0.125, 0.125]),
]
outputs = []
for name, roi, overlap, mode, sigma in cases:
    out = sliding_window_inference(inputs[name], roi, 3, minus_mean, overlap=overlap, mode=mode,
                                   sigma_scale=sigma)
    outputs.append({"input": name, "window": roi, "overlap": overlap, "mode": mode, "sigma": sigma,
                    "output": [round(v, 5) for v in out.flatten().tolist()]})
print(json.dumps(outputs))
