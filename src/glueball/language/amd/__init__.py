"""What only AMD GPUs have, by the family that brought it: layouts so far. Of the rest the names can be imported."""

from glueball.language.amd import cdna3, cdna4, cdna5, gfx1250, rdna3, rdna4
from glueball.language.module_names import later, missing
from glueball.layouts import AMDMFMALayout, AMDWMMALayout

__all__ = ["AMDMFMALayout", "AMDWMMALayout", "cdna3", "cdna4", "cdna5", "gfx1250", "rdna3", "rdna4"]

__getattr__ = later(__name__, ("hint", "slice", "warp_pipeline_stage"), missing(__name__, __all__))
