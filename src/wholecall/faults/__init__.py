"""An upstream that fails in the ways that real ones do, and what is safe to run each time.

`FaultServer` starts it inside of your tests, `wholecall faults` on the command line. The
scenario is the name of the model.
"""

from wholecall.faults.fault_server import FaultServer, start_in_thread
from wholecall.faults.scenarios import SCENARIOS, find_scenario
from wholecall.faults.script import TOOLS, Expected, Form, Scenario, ToolRun

__all__ = [
    "SCENARIOS",
    "TOOLS",
    "Expected",
    "FaultServer",
    "Form",
    "Scenario",
    "ToolRun",
    "find_scenario",
    "start_in_thread",
]
