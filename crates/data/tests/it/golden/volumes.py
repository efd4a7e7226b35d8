"""Small TIFFs as tifffile writes them: python volumes.py FOLDER (tifffile 2026.3.3 with imagecodecs)."""
import sys
from pathlib import Path

import numpy as np
import tifffile

folder = Path(sys.argv[1])


def values(frames, slices, channels, height, width, dtype):
    """Every value says where it is: 1000 t + 300 z + 100 c + 10 y + x, modulo 251 for bytes."""
    t, z, c, y, x = np.ogrid[:frames, :slices, :channels, :height, :width]
    whole = 1000 * t + 300 * z + 100 * c + 10 * y + x
    return (whole % 251 if dtype == "uint8" else whole).astype(dtype)


size = {"PhysicalSizeX": 65, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 0.065, "PhysicalSizeZ": 0.3}
ome = {"axes": "TZCYX", **size}
write = tifffile.imwrite
write(folder / "tiles.ome.tif", values(2, 3, 2, 20, 21, "uint16"), ome=True, metadata=ome,
      tile=(16, 16), compression="zlib", predictor=True)
write(folder / "order.ome.tif", values(1, 3, 2, 5, 7, "uint8")[0].transpose(1, 0, 2, 3), ome=True,
      metadata={"axes": "CZYX"}, rowsperstrip=2, compression="lzw")
write(folder / "big.tif", values(1, 3, 1, 9, 8, "float32")[0, :, 0], bigtiff=True, ome=False,
      photometric="minisblack", byteorder=">", rowsperstrip=4, compression="lzw", predictor=3)
write(folder / "planar.tif", values(1, 1, 3, 6, 5, "uint16")[0, 0], photometric="minisblack",
      planarconfig="separate", ome=False, compression="packbits", metadata=None)
write(folder / "samples.ome.tif", values(1, 1, 3, 6, 5, "uint8")[0, 0].transpose(1, 2, 0),
      photometric="rgb", ome=True, metadata={"axes": "YXS"})
write(folder / "hyperstack.tif", values(2, 3, 2, 6, 5, "uint16"), imagej=True, metadata={"axes": "TZCYX"})
write(folder / "frames.tif", values(1, 3, 1, 6, 5, "uint16")[0, :, 0], imagej=True, metadata={"axes": "TYX"})
write(folder / "signed.tif", np.zeros((4, 4), "int16"), ome=False)
