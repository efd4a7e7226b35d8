"""Writes golden.json: `python make.py > golden.json` with MONAI 1.6.1, torch 2.15.0, scikit-image 0.26.0
and numpy 2.4.6."""

import json
import warnings

import numpy as np
import torch
from monai.losses import DiceCELoss, DiceLoss, TverskyLoss
from monai.metrics import compute_average_surface_distance, compute_hausdorff_distance
from monai.metrics import compute_iou
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

warnings.filterwarnings("ignore")


def scattered(seed, *shape):
    """updraft_testing::scattered."""
    state = (seed * 2654435761) % 2**32 | 1
    numbers = []
    for _ in range(int(np.prod(shape))):
        state ^= (state << 13) % 2**32
        state ^= state >> 17
        state ^= (state << 5) % 2**32
        numbers.append(np.float32(state) / np.float32(2**32 - 1) * np.float32(2) - np.float32(1))
    return np.array(numbers, dtype=np.float32).reshape(shape)


def masks(channels):
    """Logits and labels of two samples of 60 positions; class 1 of `channels` is never true."""
    logits = torch.tensor(3 * scattered(1, 2, channels, 60))
    uniform = scattered(2, 2, 60)
    if channels == 1:
        labels = torch.tensor(uniform > 0.4).long()
        kind = {"sigmoid": True}
        truth = labels[:, None]
    else:
        labels = torch.tensor(np.where(uniform > 0.6, 3, np.where(uniform > 0.2, 2, 0)))
        kind = {"softmax": True, "to_onehot_y": True}
        truth = labels[:, None]
    predicted = (logits >= 0).long()[:, 0] if channels == 1 else logits.argmax(1)
    classes = max(channels, 2)
    # All samples as one, because the scores are of their positions together.
    flat = [torch.stack([(mask.reshape(1, -1) == c) for c in range(classes)], 1) for mask in (predicted, labels)]
    iou = compute_iou(*[each.float() for each in flat], ignore_empty=False)[0].double()
    return {
        "dice": DiceLoss(batch=True, **kind)(logits, truth).item(),
        "dice_cross_entropy": DiceCELoss(batch=True, **kind)(
            logits, truth.float() if channels == 1 else truth
        ).item(),
        "tversky": TverskyLoss(alpha=0.3, beta=0.7, batch=True, **kind)(logits, truth).item(),
        "iou": iou.tolist(),
    }


def images(sides, truth, predicted):
    """Two samples of two channels."""
    truth = scattered(truth, 2, 2, *sides)
    predicted = np.float32(0.7) * truth + np.float32(0.3) * scattered(predicted, 2, 2, *sides)
    channel = lambda array, c: array[:, c].astype(np.float64).ravel()
    similarity = [
        structural_similarity(
            truth[n, c].astype(np.float64),
            predicted[n, c].astype(np.float64),
            gaussian_weights=True,
            sigma=1.5,
            use_sample_covariance=False,
            data_range=2.0,
        )
        for n in range(2)
        for c in range(2)
    ]
    residual = [((channel(truth, c) - channel(predicted, c)) ** 2).sum() for c in range(2)]
    spread = [((channel(truth, c) - channel(truth, c).mean()) ** 2).sum() for c in range(2)]
    return {
        "ssim": float(np.mean(similarity)),
        "psnr": float(peak_signal_noise_ratio(truth.astype(np.float64), predicted, data_range=2.0)),
        "pearson": [float(np.corrcoef(channel(truth, c), channel(predicted, c))[0, 1]) for c in range(2)],
        "r_squared": float(np.mean([1 - r / s for r, s in zip(residual, spread)])),
        "mean_absolute_error": float(np.abs(truth.astype(np.float64) - predicted).mean()),
    }


def ellipsoid(sides, center, radii):
    axes = np.meshgrid(*[np.arange(side) for side in sides], indexing="ij")
    return sum(((axis - c) / r) ** 2 for axis, c, r in zip(axes, center, radii)) <= 1


def boundaries(sides, first, second, spacing):
    """Two ellipsoids; the second is cut by the edge of the picture, and has a hole."""
    predicted, truth = ellipsoid(sides, *first), ellipsoid(sides, *second)
    truth &= ~ellipsoid(sides, second[0], [r / 3 for r in second[1]])
    pair = [torch.tensor(mask)[None, None] for mask in (predicted, truth)]
    hausdorff = lambda percentile: compute_hausdorff_distance(
        *pair, include_background=True, percentile=percentile, spacing=spacing
    ).item()
    return {
        "sides": sides,
        "spacing": spacing,
        "predicted": first,
        "truth": second,
        "hausdorff": hausdorff(None),
        "hausdorff_95": hausdorff(95),
        "mean_surface": compute_average_surface_distance(
            *pair, include_background=True, symmetric=True, spacing=spacing
        ).item(),
    }


print(
    json.dumps(
        {
            "softmax": masks(4),
            "sigmoid": masks(1),
            "images": images((14, 17), 3, 4),
            "volumes": images((11, 13, 12), 5, 6),
            "boundaries": [
                boundaries([40, 30], [[18, 14], [9, 7]], [[22, 19], [11, 13]], [1.0, 1.0]),
                boundaries([40, 30], [[18, 14], [9, 7]], [[22, 19], [11, 13]], [0.5, 0.2]),
                boundaries(
                    [12, 24, 20],
                    [[5, 11, 8], [4, 7, 6]],
                    [[8, 9, 9], [6, 8, 5]],
                    [2.5, 0.8, 0.8],
                ),
            ],
        },
        indent=1,
    )
)
