"""Python imports this at its start, in processes that have this folder in PYTHONPATH (see seams)."""

import os

from tests.fault_suite import copier, freeze_points
from tests.fault_suite.seams import install
from tests.mutations import switches

install([*freeze_points.makers(os.environ), *copier.makers(os.environ), *switches.makers(os.environ)])
