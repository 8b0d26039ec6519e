"""The files of deploy/ fit the proxy: settings, metrics, routes, commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from wholecall.cli import main
from wholecall.proxy.config.load import load

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
METRIC = re.compile(r"wholecall_[a-z_]+")
# What Prometheus makes of one metric.
SUFFIXES = ("_bucket", "_sum", "_count")


def read(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def documented_metrics() -> dict[str, set[str]]:
    """The metrics of docs/metrics.md with their labels."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(wholecall_[a-z_]+)` \| (.*?) \|", page, re.MULTILINE)
    return {name: set(re.findall(r"`([a-z_]+)`", labels)) for name, labels in rows}


def expressions() -> Iterator[str]:
    for panel in json.loads(read("grafana.json"))["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


@pytest.mark.parametrize("expression", list(expressions()))
def test_a_panel_asks_for_a_metric_and_for_labels_that_exist(expression: str) -> None:
    known = documented_metrics()
    [asked] = METRIC.findall(expression)
    name = next((asked.removesuffix(each) for each in SUFFIXES if asked.endswith(each)), asked)
    assert name in known
    for group in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in group.split(",")} - {"le"} <= known[name]


def test_panels_have_places_of_their_own() -> None:
    panels = json.loads(read("grafana.json"))["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels) > 0


def kubernetes() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all(read("kubernetes.yaml"))}


def configurations() -> dict[str, str]:
    mapped = kubernetes()["ConfigMap"]["data"]["wholecall.yaml"]
    return {"compose": read("wholecall.yaml"), "kubernetes": mapped}


@pytest.mark.parametrize("where", configurations())
def test_the_configuration_is_one_that_the_proxy_accepts(where: str, tmp_path: Path) -> None:
    file = tmp_path / "wholecall.yaml"
    file.write_text(configurations()[where], "utf-8")
    config = load(file, {}).config
    assert config.keys.required
    assert config.listen.port == 8787
    assert Path(config.keys.path).parent == Path("/var/lib/wholecall")


def test_the_deployment_probes_routes_that_need_no_key_and_waits_for_the_drain() -> None:
    pod = kubernetes()["Deployment"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    config = yaml.safe_load(configurations()["kubernetes"])
    assert container["readinessProbe"]["httpGet"]["path"] in config["keys"]["open"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    for probe in ("readinessProbe", "livenessProbe"):
        [host] = container[probe]["httpGet"]["httpHeaders"]
        assert host["value"] in config["listen"]["hosts"]
    assert pod["terminationGracePeriodSeconds"] > 60
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/etc/wholecall", "/var/lib/wholecall"} <= mounts


def test_compose_mounts_files_that_exist() -> None:
    service = yaml.safe_load(read("compose.yaml"))["services"]["wholecall"]
    assert (DEPLOY / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert (DEPLOY / service["volumes"][0].partition(":")[0]).is_file()


def test_the_image_is_built_from_what_is_there() -> None:
    lines = read("Containerfile").splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert copied
    assert all((ROOT / name).exists() for names in copied for name in names)
    extras = re.search(r"\.\[([a-z,]+)\]", read("Containerfile"))
    assert extras is not None
    known = (ROOT / "pyproject.toml").read_text("utf-8")
    assert all(re.search(rf"^{name} = \[", known, re.MULTILINE) for name in extras[1].split(","))


def test_the_unit_is_the_one_of_the_docs_and_its_commands_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    unit = read("wholecall.service")
    assert f"```ini\n{unit}```" in (ROOT / "docs" / "operating.md").read_text("utf-8")
    commands = re.findall(r"^Exec\w+=\S*/wholecall (.+)$", unit, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        with pytest.raises(SystemExit) as exited:
            main.main([*command.split(), "--help"])
        assert not exited.value.code
    assert "Usage: wholecall serve" in capsys.readouterr().out
