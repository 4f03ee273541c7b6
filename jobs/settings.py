"""Every setting, read once from the environment (`MATMUL_*`). docs/operations.md lists them, generated from here."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from jobs.setting_groups.cells import CellSettings
from jobs.setting_groups.consistency import check_paths, check_sizes, check_times, file_mode
from jobs.setting_groups.object_store import ObjectStoreSettings

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HOUR_S, DAY_S = 3600, 86_400
FileMode = Annotated[int, BeforeValidator(file_mode)]
AutoMeasures = Literal["idle", "asked", "off"]
Durability = Literal["process", "disk"]
QueueWithoutWorkers = Literal["asked", "always", "never"]


class Settings(ObjectStoreSettings, CellSettings):
    """All settings. Names of values in bytes or seconds end in `_bytes` or `_s`. Raises InvalidSettings for
    inconsistent values.
    """

    model_config = SettingsConfigDict(env_prefix="MATMUL_", frozen=True, extra="ignore")

    # --- make run ---
    state_dir: Path = Field(Path(".matmul"), description="Where `make run` keeps its state between starts.")

    # --- the API ---
    site_dir: Path = Field(
        Path("site"), description="The documentation site that `make site` built; served at `/site/` if it is there."
    )
    host: str = Field("127.0.0.1", description="Address the API binds.")
    port: int = Field(8000, ge=0, le=65535, description="Port the API binds.")
    unix_socket: Path | None = Field(
        None, description="Path of a Unix socket that the API answers on as well, under the same rules for API keys."
    )
    unix_socket_mode: FileMode = Field(
        0o600, description="Who may connect to it, in octal: `600` this user, `660` its group too, `666` anyone here."
    )
    api_processes: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes that answer HTTP; 0: 1 on up to 4 cores, else one for every 2, 8 at most.",
    )
    allowed_hosts: tuple[str, ...] = Field(
        (),
        description="Host headers that are answered, as a JSON list: `name` for every port, `name:port` for one. "
        "Empty: loopback names if keys are off, otherwise any.",
    )
    auth: Literal["auto", "on", "off"] = Field(
        "auto",
        description="API keys: `auto` requires them except on a loopback bind; `off` is refused on any other.",
    )
    api_keys_file: Path | None = Field(
        None, description="File of hashed API keys, one a line: `<key id>:<hash>:<name>`, then options."
    )
    api_keys: SecretStr | None = Field(None, description="The same lines in the environment, separated by spaces.")
    api_key_pepper_file: Path | None = Field(None, description="File with the secret that keys are hashed with.")
    api_key_pepper: SecretStr | None = Field(None, description="The pepper itself, instead of a file.")
    behind_tls: bool = Field(
        False,
        description="Whether browsers come through a proxy that speaks TLS: cookies are then `Secure` and `__Host-`, "
        "and browsers are told to use HTTPS only.",
    )
    session_ttl_s: int = Field(12 * HOUR_S, ge=60, description="How long a sign-in on the pages lasts.")
    max_failed_keys_per_minute: int = Field(
        600,
        ge=1,
        description="Requests with a wrong API key that an address may send each minute before they get 429; each API "
        "process counts for itself.",
    )
    audit_file: Path | None = Field(
        None,
        description="File of the audit log: a JSON line for each change, sign-in and refused key. Unset: the log.",
    )
    max_body_bytes: int = Field(4 * GIB, ge=1, description="Largest request body, binary.")
    max_json_bytes: int = Field(8 * MIB, ge=1, description="Largest JSON request body.")
    max_json_elements: int = Field(1 << 20, ge=1, description="Largest product in a JSON reply, in elements.")
    receive_timeout_s: float = Field(20.0, gt=0, description="How long a client may pause within a request.")
    send_timeout_s: float = Field(
        20.0, gt=0, description="How long a client may read almost nothing of a reply before it is disconnected."
    )
    max_wait_s: float = Field(120.0, gt=0, description="Longest `Prefer: wait`.")
    default_wait_s: float = Field(30.0, gt=0, description="How long a request without `Prefer` waits for its product.")
    shared_memory_prefix: str | None = Field(
        None,
        pattern=r"^/[A-Za-z0-9_.-]{0,100}$",
        description="Prefix that keys of POSIX shared memory must have for clients of /v2 to register them, such as "
        "`/matmul_`; `/` allows all of this user's. Unset: shared memory is refused.",
    )
    max_queued_jobs: int = Field(100_000, ge=1, description="Jobs that may wait, all keys together.")
    max_queued_jobs_per_key: int = Field(20_000, ge=1, description="Jobs of one key that may wait.")

    max_jobs_per_key: int | None = Field(
        None, ge=1, description="Jobs of one key in flight, queued and running. Unset: no limit."
    )
    max_job_bytes_per_key: int | None = Field(
        None,
        ge=1,
        description="Bytes of operands and products of one key's jobs in flight. Unset: limited only by the store.",
    )
    max_flops_per_minute_per_key: float | None = Field(
        None,
        ge=1,
        description="Operations that one key may request per minute, benchmarks as estimated. A larger job is accepted "
        "once, and then paid off. Unset: unlimited.",
    )

    # --- Redis ---
    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:6379/0"), description="Job store and broker.")
    redis_url_file: Path | None = Field(
        None, description="File that holds the Redis URL, so that its password is not in the environment."
    )
    redis_bytes: int | None = Field(
        None,
        ge=64 * MIB,
        description="Memory limit of the Redis that `make run` starts. Unset: a quarter of the machine's.",
    )
    redis_timeout_s: float = Field(0.8, gt=0, description="How long the API waits for Redis before it answers 503.")
    durability: Durability = Field(
        "process",
        description="What an accepted job (202) survives: `process`, the death of any process; `disk`, also a power "
        "cut, which needs a Redis with `appendfsync always`.",
    )
    redis_replicas: int = Field(
        0, ge=0, le=8, description="Replicas of Redis that must have a job before its 202; 0: none."
    )
    key_prefix: str = Field("matmul:", description="Prefix of every Redis key.")

    # --- a job's life ---
    max_attempts: int = Field(3, ge=1, description="Runs of a job, each ended by its worker's death, before it fails.")
    lease_s: float = Field(6.0, gt=0, description="How long a silent worker keeps its job.")
    heartbeat_s: float = Field(0.5, gt=0, description="How often a worker renews its lease and looks for a cancel.")
    worker_ttl_s: float = Field(10.0, gt=0, description="How long a silent worker counts as live.")
    refused_ttl_s: float = Field(
        600.0,
        ge=0,
        description="A job that no live worker's version understands fails this long after its first refusal.",
    )
    move_after_s: float = Field(
        60.0,
        ge=0,
        description="How long a device class has no live worker before its waiting `auto` jobs move to another class "
        "with a kernel of their accuracy class.",
    )
    queue_without_workers: QueueWithoutWorkers = Field(
        "asked",
        description="Whether a product waits until a worker is started: `asked`, if no worker is live and the request "
        "says `Prefer: respond-async`; `always`, also if only its device class has none (`/readyz` then "
        "needs no worker); `never`. If it does not wait, the answer is 503 or 409.",
    )
    class_without_workers: Literal["cpu", "gpu"] = Field(
        "cpu", description="Device class in whose queue such a product waits if both classes could compute it."
    )
    sweep_s: float = Field(0.5, gt=0, description="How often lost messages and expired leases are looked for.")
    sweep_grace_s: float = Field(2.0, gt=0, description="Age below which a message does not count as lost.")
    sweeper: bool = Field(True, description="Whether this API process takes part in sweeping.")
    job_timeout_s: float = Field(600.0, gt=0, description="Time limit of one attempt of a job.")
    benchmark_timeout_s: float = Field(14_400.0, gt=0, description="Time limit of one attempt of a benchmark.")
    room_timeout_s: float = Field(
        60.0,
        gt=0,
        description="How long a job retries to find room for its product, in a full store or Redis, before it fails. "
        "Of each wait in the queue at most a sixth of this counts.",
    )
    max_benchmark_cases: int = Field(5000, ge=1, description="Most measurements of one benchmark: cases times rounds.")
    max_benchmark_flops: float = Field(
        1e18, gt=0, description="Most operations of one benchmark, at the minimum number of samples."
    )
    max_ended_jobs: int = Field(
        200_000, ge=1, description="Ended jobs that are kept, of all keys together; beyond this the oldest are deleted."
    )
    max_ended_jobs_per_key: int = Field(100_000, ge=1, description="The same limit for one key.")
    max_pinned_per_key: int = Field(
        100, ge=1, le=1000, description="Benchmarks whose results one key may pin, so that they do not expire."
    )
    job_ttl_s: int = Field(7 * DAY_S, ge=60, description="How long a finished job's record is kept.")
    idempotency_ttl_s: int = Field(DAY_S, ge=60, description="How long an Idempotency-Key is remembered.")

    # --- matrices ---
    store: Literal["file", "redis", "s3"] = Field(
        "file",
        description="Where matrices are: `file` (one host), `redis` (many), or `s3` (an object store, for many hosts "
        "and large matrices).",
    )
    store_dir: Path = Field(
        Path(tempfile.gettempdir()) / "matmul-matrices",
        description="Directory of the `file` store, shared by API and workers of this service, and by nothing else. "
        "With `s3`, of this host's copies.",
    )
    store_bytes: int = Field(16 * GIB, ge=1, description="Most bytes of matrices kept, of all keys together.")
    store_bytes_per_key: int | None = Field(
        None,
        ge=1,
        description="Most bytes of matrices kept for one API key. Unset: a quarter of MATMUL_STORE_BYTES, at least "
        "1 GiB; as much as there is where keys are off.",
    )
    record_matrix_bytes: int = Field(
        16 * KIB,
        ge=0,
        le=MIB,
        description="Largest matrix, operand or product, that is kept in its job's record. A larger one is stored.",
    )
    max_batch: int = Field(
        64,
        ge=1,
        le=1024,  # a command of the script that claims or ends them takes some thousands of arguments at most
        description="Most small jobs of one kind that a worker computes in one launch; 1: no batches.",
    )
    jobs_under_way: int | None = Field(
        None,
        ge=1,
        le=16,
        description="Most products that a worker has in progress at once: one is computed while others are copied. "
        "Unset: 4 on a GPU, 1 on a CPU.",
    )
    store_free_bytes: int | None = Field(
        None,
        ge=0,
        description="Most memory of deleted matrices that the `file` store keeps for new ones, within "
        "MATMUL_STORE_BYTES. Unset: half of that, and at most a quarter of the tmpfs, or 256 MiB on ext4, where each "
        "file then says which matrix is in it; 0 elsewhere. Set it on a disk only with MATMUL_DURABILITY=disk: "
        "otherwise a power cut may leave an earlier matrix of the same size under a new name.",
    )
    max_matrix_bytes: int = Field(4 * GIB, ge=1, description="Largest single matrix, operand or product.")
    matrix_ttl_s: int = Field(DAY_S, ge=1, description="How long an uploaded matrix is kept after its last use.")
    product_ttl_s: int = Field(
        DAY_S,
        ge=1,
        description="How long a product is kept, and the operands of a job that failed or was cancelled, for a retry. "
        "Inline operands are removed when their job succeeds.",
    )

    # --- workers ---
    device: str = Field(
        "cpu", description="What this worker runs on: `cpu`, `gpu:<index>`, or a gang, `gpus:<index>,<index>,…`."
    )
    cpu_threads: int = Field(0, ge=0, description="BLAS threads of the CPU worker; 0: all cores.")
    kernel_cache_dir: Path = Field(
        Path.home() / ".cache" / "matmul-service" / "kernels", description="Compiled kernels are kept here."
    )
    compiled_kernels_dir: Path | None = Field(
        None, description="Directory of kernels compiled ahead of time, as in the worker image; read-only."
    )
    auto_measures: AutoMeasures = Field(
        "idle",
        description="When GPU workers measure a few kernels at shapes that `auto` was asked for and no table has: "
        "`idle`, between jobs; `asked`, when `make tune` requests it; `off`, never: the same request then "
        "always takes the same kernel.",
    )
    device_cache_share: float = Field(
        0.5, ge=0, le=1, description="Share of the device's memory for operands kept between jobs."
    )

    device_memory_bytes: int | None = Field(
        None,
        ge=64 * KIB,
        description="Most memory of a device that a product may take. A larger product is computed in tiles. Unset: "
        "nine tenths of a GPU's memory; on a CPU products are computed whole.",
    )

    log_format: Literal["console", "json"] = Field("console", description="Format of log lines.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe line logged.")

    @model_validator(mode="before")
    @classmethod
    def _read_redis_url(cls, values: dict[str, Any]) -> dict[str, Any]:
        check_paths(values, cls.model_fields)
        path = values.get("redis_url_file")
        return values | {"redis_url": Path(path).read_text().strip()} if path else values

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        check_sizes(self.__dict__)
        check_times(
            lease_s=self.lease_s,
            heartbeat_s=self.heartbeat_s,
            worker_ttl_s=self.worker_ttl_s,
            sweep_s=self.sweep_s,
            redis_timeout_s=self.redis_timeout_s,
            default_wait_s=self.default_wait_s,
            max_wait_s=self.max_wait_s,
        )
        return self


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """This process's settings; the environment is read at the first call."""
    return Settings()
