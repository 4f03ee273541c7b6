"""An nginx configuration that routes to cells: by the cell number in an id, otherwise by the request's affinity."""

from __future__ import annotations

from itertools import accumulate

import orjson

from service.cells.plan import BUCKETS, CellPlan

CELL_IN_PATH = r"^/(?:v1/(?:jobs|benchmarks)/job_|v1/matrices/c_|v1/uploads/up_|ui/(?:jobs|benchmarks)/job_)"
SERVER_KIB = 8  # of nginx's memory for what is known of a host, which may have a few addresses
DOWN = {
    "type": "/problems/cell_unavailable",
    "title": "This cell of the service does not answer.",
    "status": 503,
    "detail": "The cell that has this does not answer, while others do; try again in a moment.",
    "instance": "$matmul_instance",
    "request_id": "$request_id",
    "retry_after_s": 2,
}
HEAD = """\
# Made by `python -m service.cells`; change the list of cells, and make it anew.
# For the `http` block. docs/scaling.md says what goes where.
"""
SERVER = """\
map $request_uri $matmul_instance {
    default "/";
    "~^(?<matmul_path>[A-Za-z0-9/_.~%%-]+)" $matmul_path;
}

server {
    listen %(listen)s;
    client_max_body_size 0;  # the API has its own limits
    server_tokens off;

    location = /metrics { return 404; }  # scrape each cell's API itself

    location / {
        proxy_pass http://$matmul_upstream;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host $http_host;
        proxy_request_buffering off;  # large bodies stream through
        proxy_buffering off;  # so do products and events
        proxy_connect_timeout 1s;
        proxy_read_timeout 180s;  # longer than MATMUL_MAX_WAIT_S
        proxy_send_timeout 60s;
        proxy_next_upstream error timeout;
        proxy_next_upstream_timeout 3s;
        add_header X-Matmul-Cell $matmul_told_cell always;
        error_page 502 504 = @down;
    }

    location @down {
        internal;
        keepalive_timeout 0;  # says that it ends the connection, as it does where a body is still on its way
        default_type application/problem+json;
        add_header X-Matmul-Cell $matmul_told_cell always;
        add_header X-Request-Id $request_id always;
        add_header Retry-After %(retry_after)s always;
        return 503 '%(down)s';
    }
}
"""


def nginx_configuration(plan: CellPlan) -> str:
    """The configuration, for nginx ≥ 1.15.3. A failing cell does not affect the others."""
    parts = [HEAD, *_upstreams(plan), _named(plan), _affinity(), _buckets(plan), _choice(plan), _server(plan)]
    return "\n".join(parts)


def _upstreams(plan: CellPlan) -> list[str]:
    made = [_upstream(f"cell_{each.cell}", each.servers) for each in plan.cells]
    every = [server for each in plan.cells for server in each.servers]
    return made + ([_upstream("cell_any", every)] if plan.new_work == "least_connections" else [])


def _upstream(name: str, servers: tuple[str, ...] | list[str]) -> str:
    lines = "\n".join(f"    server {server} max_fails=2 fail_timeout=2s;" for server in servers)
    kept = "    keepalive 64;\n    keepalive_timeout 20s;  # the API ends idle ones after 30 s"
    zone_kib = 64 + SERVER_KIB * len(servers)
    return f"upstream {name} {{\n    zone {name} {zone_kib}k;\n    least_conn;\n{lines}\n{kept}\n}}\n"


def _map(source: str, target: str, rows: list[tuple[str, str]]) -> str:
    lines = "\n".join(f"    {key} {value};" for key, value in rows)
    return f"map {source} {target} {{\n{lines}\n}}\n"


def _named(plan: CellPlan) -> str:
    """The cell named by the path, a header, or a browser's cookie, in this order."""
    rows = [(f'"~{CELL_IN_PATH}{each.cell}"', each.cell) for each in plan.cells]
    words = [(each.cell, each.cell) for each in plan.cells]
    by_cookie = _map("$cookie_matmul_cell", "$matmul_shown_cell", [("default", '""'), *words])
    by_header = _map("$http_x_matmul_cell", "$matmul_asked_cell", [("default", "$matmul_shown_cell"), *words])
    by_path = _map("$uri", "$matmul_named_cell", [("default", "$matmul_asked_cell"), *rows])
    return "\n".join([by_cookie, by_header, by_path])


def _affinity() -> str:
    """The affinity of a request: its affinity header, otherwise its API key, otherwise its client address."""
    token = (r'"~*^bearer +(?<matmul_token>\S+)$"', "$matmul_token")
    of_key = _map("$http_x_api_key", "$matmul_of_key", [('""', "$remote_addr"), ("default", "$http_x_api_key")])
    of_token = _map("$http_authorization", "$matmul_of_token", [("default", "$matmul_of_key"), token])
    said = [('""', "$matmul_of_token"), ("default", "$http_x_matmul_affinity")]
    return "\n".join([of_key, of_token, _map("$http_x_matmul_affinity", "$matmul_affinity", said)])


def _buckets(plan: CellPlan) -> str:
    runs = plan.buckets()
    shares = [f"    {100 * count / BUCKETS:.1f}% {name};" for name, count in runs[:-1]]
    assert list(accumulate(count for _, count in runs))[-1] == BUCKETS, "each bucket is a cell's"
    return "\n".join(["split_clients $matmul_affinity $matmul_hashed_cell {", *shares, f"    * {runs[-1][0]};", "}\n"])


def _choice(plan: CellPlan) -> str:
    hashed = ("default", "cell_$matmul_hashed_cell")
    if plan.new_work == "affinity":
        new_work = _map("$matmul_hashed_cell", "$matmul_new_work", [hashed])
    else:
        new_work = _map("$http_x_matmul_affinity", "$matmul_new_work", [('""', "cell_any"), hashed])
    named = [('""', "$matmul_new_work"), ("default", "cell_$matmul_named_cell")]
    upstreams = [("default", '""'), *((f"cell_{each.cell}", each.cell) for each in plan.cells)]
    by_all = _map("$matmul_named_cell", "$matmul_upstream", named)
    return "\n".join([new_work, by_all, _map("$matmul_upstream", "$matmul_told_cell", upstreams)])


def _server(plan: CellPlan) -> str:
    down = orjson.dumps(DOWN).decode()
    return SERVER % {"listen": plan.listen, "down": down, "retry_after": DOWN["retry_after_s"]}
