"""The configuration of the proxy: a file, the environment, and defaults that are safe."""

from wholecall.proxy.config.changing import Changes, changes, take_over
from wholecall.proxy.config.loading import find_file, load, load_config
from wholecall.proxy.config.problems import ConfigError, ConfigProblem
from wholecall.proxy.config.secret import Secret
from wholecall.proxy.config.settings import (
    Config,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    LogConfig,
    McpTool,
    MetricsConfig,
    ModelConfig,
    PythonTool,
    ServerLimits,
    ToolConfig,
)

__all__ = [
    "Changes",
    "Config",
    "ConfigError",
    "ConfigProblem",
    "InspectorConfig",
    "KeysConfig",
    "ListenConfig",
    "LogConfig",
    "McpTool",
    "MetricsConfig",
    "ModelConfig",
    "PythonTool",
    "Secret",
    "ServerLimits",
    "ToolConfig",
    "changes",
    "find_file",
    "load",
    "load_config",
    "take_over",
]
