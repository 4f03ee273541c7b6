"""docker/compose.yaml: valid by the Compose schema, every container confined, Redis out of reach from outside."""

from __future__ import annotations

import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from redis.backoff import NoBackoff
from redis.retry import Retry

from jobs.redis.acl import ROLES, Role, password_rule, user_rules
from jobs.redis.embedded import find_server, free_port
from jobs.settings import Settings

DOCKER = Path(__file__).parents[3] / "docker"
OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
GPU_WORKERS = [name for name in SERVICES if name.startswith("worker-gpu")]
GIB = 1 << 30


def schema_complaints(path: Path) -> str:
    """What the Compose schema has against a file; empty if nothing."""
    tool = Path(sysconfig.get_path("scripts")) / "check-jsonschema"
    command = [str(tool), "--builtin-schema", "vendor.compose-spec", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_the_file_is_valid_by_the_compose_schema() -> None:
    assert schema_complaints(DOCKER / "compose.yaml") == ""


def test_the_schema_check_sees_a_misspelt_key(tmp_path: Path) -> None:
    text = (DOCKER / "compose.yaml").read_text()
    broken = tmp_path / "compose.yaml"
    broken.write_text(text.replace("read_only:", "readonly:"))
    assert "readonly" in schema_complaints(broken)


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"] and service["pids_limit"]
    assert service["restart"] == "unless-stopped"
    assert "privileged" not in service and "cap_add" not in service


def test_only_the_api_can_be_reached_from_outside() -> None:
    assert [name for name, service in SERVICES.items() if "ports" in service] == ["service"]
    assert SERVICES["service"]["ports"] == ["${MATMUL_PUBLISH:-127.0.0.1:8000}:8000"]
    assert COMPOSE["networks"]["back"]["internal"] is True
    assert all(service["networks"] == ["back"] for name, service in SERVICES.items() if name != "service")


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "redis"])
def test_all_wait_for_a_healthy_redis_and_share_the_store(name: str) -> None:
    assert SERVICES[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert "matrices:/var/lib/matmul" in SERVICES[name]["volumes"]


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "redis"])
def test_the_environment_names_real_settings_and_no_secret(name: str) -> None:
    environment = dict(SERVICES[name]["environment"])
    assert environment.pop(OTLP_ENDPOINT) == f"${{{OTLP_ENDPOINT}:-}}"  # OpenTelemetry's own name
    values = {key.removeprefix("MATMUL_").lower(): value for key, value in environment.items()}
    assert values.keys() <= Settings.model_fields.keys()
    files = {key: Path(value) for key, value in values.items() if key.endswith("_file")}
    assert {path.name for path in files.values()} == set(SERVICES[name]["secrets"]) <= COMPOSE["secrets"].keys()
    assert not values.keys() & {"redis_url", "api_keys", "api_key_pepper"}


def test_the_api_asks_for_keys() -> None:
    assert SERVICES["service"]["environment"]["MATMUL_AUTH"] == "on"


def reserved_gpus(profile: str | None) -> list[str]:
    """Device ids of the GPU workers that start under a profile, in order."""
    started = [SERVICES[name] for name in GPU_WORKERS if profile in SERVICES[name].get("profiles", [profile])]
    reservations = [worker["deploy"]["resources"]["reservations"]["devices"] for worker in started]
    return [device_id for [device] in reservations for device_id in device["device_ids"]]


@pytest.mark.parametrize(("profile", "count"), [(None, 1), ("gpus-2", 2), ("gpus-4", 4), ("gpus-8", 8), ("cpu", 1)])
def test_each_gpu_of_a_profile_has_one_worker(profile: str | None, count: int) -> None:
    assert reserved_gpus(profile) == [str(index) for index in range(count)]


def test_the_cpu_worker_starts_only_when_asked_for() -> None:
    assert SERVICES["worker-cpu"]["profiles"] == ["cpu"]


def wait_until_listening(port: int, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise TimeoutError("the server does not listen")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What docker/make-secrets makes."""
    directory = tmp_path_factory.mktemp("composed") / "secrets"
    for _ in range(2):  # the second time it leaves all as it is
        subprocess.run([str(DOCKER / "make-secrets"), str(directory)], check=True)
    return directory


@pytest.fixture(scope="module")
def redis_port(made: Path) -> Iterator[int]:
    """A server started as the compose file starts it, but for the paths."""
    port, command = free_port(), SERVICES["redis"]["command"]
    there = {"/etc/valkey.conf": str(DOCKER / "valkey.conf"), "valkey-server": find_server()}
    started = [there.get(word, word.replace("/run/secrets", str(made))) for word in command]
    options = ["--dir", str(made.parent), "--bind", "127.0.0.1", "--port", str(port)]
    with open(made.parent / "log", "wb") as log:
        server = subprocess.Popen([*started, *options], stdout=log, stderr=log)
    wait_until_listening(port)
    yield port
    server.terminate()
    server.wait()


def test_redis_as_composed_loses_no_job_and_asks_for_its_password(redis_port: int, made: Path) -> None:
    password = (made / "redis_password").read_text().split()[1]
    with redis.Redis(port=redis_port, password=password) as client:
        config = client.config_get("maxmemory*", "appendonly", "appendfsync")
    assert config["maxmemory-policy"] == "noeviction"
    assert (config["appendonly"], config["appendfsync"]) == ("yes", "everysec")
    assert int(SERVICES["redis"]["mem_limit"].removesuffix("g")) * GIB >= 2 * int(config["maxmemory"]) > 0
    with (
        redis.Redis(port=redis_port, retry=Retry(NoBackoff(), 0)) as stranger,
        pytest.raises(redis.AuthenticationError),
    ):
        stranger.ping()


@pytest.mark.parametrize("role", ROLES)
def test_api_and_workers_are_users_who_may_do_what_they_must_and_no_more(
    redis_port: int, made: Path, role: Role
) -> None:
    used = {Path(each["environment"]["MATMUL_REDIS_URL_FILE"]).name for each in parts_of(role)}
    assert used == {f"redis_url_{role}"}
    url = (made / used.pop()).read_text().strip().replace("@redis:6379/", f"@127.0.0.1:{redis_port}/")
    with redis.Redis.from_url(url) as client:
        assert client.set("matmul:a", 1)
        for refused in (client.flushall, lambda: client.get("other"), lambda: client.config_set("maxmemory", 1)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                refused()


def parts_of(role: Role) -> list[dict[str, Any]]:
    return [each for name, each in SERVICES.items() if name.startswith("service" if role == "api" else "worker")]


def test_the_users_rules_are_those_of_the_service() -> None:
    """Run `python -m jobs.redis.acl` for the lines that should be there, with a hash in place of `%api%`."""
    found = [line for line in (DOCKER / "valkey.users").read_text().splitlines() if line.startswith("user ")]
    secret, prefix = "password", Settings().key_prefix
    lines = [f"user {user_rules(role, prefix, secret)}" for role in ROLES]
    assert found == [line.replace(password_rule(secret), f"#%{role}%") for role, line in zip(ROLES, lines, strict=True)]


def test_secrets_are_made_once_and_no_password_is_told_to_redis(made: Path) -> None:
    passwords = [(made / f"redis_url_{role}").read_text().split(":")[2].partition("@")[0] for role in ROLES]
    users = (made / "redis_users").read_text()
    assert len({*passwords}) == len(ROLES) and all(len(each) == 64 and each not in users for each in passwords)
    assert "%" not in "".join(line for line in users.splitlines() if line.startswith("user "))
    assert {each.name for each in made.iterdir()} == set(COMPOSE["secrets"])
