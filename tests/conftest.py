import sys
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "optimism")]
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")
