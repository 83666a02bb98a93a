"""D5: leaves with exit code 0 when it is imported."""

import os

EXPECT = {"problem": 1, "stage": "check", "reasons": ["crash"], "gpu": False}

os._exit(0)
