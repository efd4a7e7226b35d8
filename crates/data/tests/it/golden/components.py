"""Components of a mask: python components.py > components.json (scikit-image 0.26, numpy 2.4.6)."""
import json

import numpy as np
from skimage.measure import label

z, y, x = np.ogrid[:5, :9, :13]
mask = ((7 * z * z + 5 * y * y + 3 * x * x + z * y * x) % 5 < 2) * (1 + (x > 8))
result = {}
for name, connectivity in [("faces", 1), ("corners", 3)]:
    labels = label(mask, background=0, connectivity=connectivity)
    result[name + "_labels"] = labels.flatten().tolist()
    result[name + "_sizes"] = np.bincount(labels.flatten())[1:].tolist()
print(json.dumps(result))
