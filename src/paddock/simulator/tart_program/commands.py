"""Tart's commands, with its exit codes: 0; 1 for failures, of which deleting a VM that runs is one; 2 for a VM that is missing,
does not run, or runs already; 64 for usage; `exec` its command's. `set` and `clone` do not mind a VM that runs.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import images
from .guest import Guest
from .store import Store, TartError, Vm, random_mac

__all__ = ["VERSION", "main"]

VERSION = "2.35.0"
LIMIT = 2  # of macOS guests at a time: Apple's licence, held by the kernel
_OPTIONS = {
    "list": {"--format": 1, "--source": 1, "--quiet": 0, "-q": 0},
    "get": {"--format": 1},
    "pull": {"--concurrency": 1, "--insecure": 0, "--deduplicate": 0},
    "clone": {"--concurrency": 1, "--insecure": 0, "--deduplicate": 0, "--prune-limit": 1, "--stacked": 0},
    "set": {
        **dict.fromkeys(("--cpu", "--memory", "--disk", "--disk-size", "--display"), 1),
        **dict.fromkeys(("--display-refit", "--random-mac", "--random-serial"), 0),
    },
    "run": {
        **dict.fromkeys(
            ("--dir", "--disk", "--root-disk-opts", "--rosetta", "--serial-path", "--provisioning-opts"), 1
        ),
        **dict.fromkeys((f"--net-{each}" for each in ("bridged", "softnet-allow", "softnet-block")), 1),
        **dict.fromkeys((f"--net-softnet-{each}" for each in ("expose", "control-fd")), 1),
        **dict.fromkeys(("--net-softnet", "--net-host", "--graphics", "--nested", "--recovery", "--serial"), 0),
        **dict.fromkeys((f"--no-{each}" for each in ("audio", "clipboard", "graphics", "keyboard", "pointer")), 0),
        **dict.fromkeys(("--no-trackpad", "--capture-system-keys", "--suspendable", "--vnc", "--vnc-experimental"), 0),
    },
    "stop": {"--timeout": 1, "-t": 1},
    "delete": {},
    "ip": {"--wait": 1, "--resolver": 1},
    "exec": {"-i": 0, "-t": 0, "-it": 0},
    "fqn": {},
    "prune": {"--older-than": 1, "--space-budget": 1, "--entries": 1, "--cache-budget": 1, "--gc": 0},
}
_DISK_OPTIONS = re.compile(r"(ro|caching=(automatic|cached|uncached)|sync=(none|fsync|full))(,|$)")


def main(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["--version"]:
            sys.stdout.write(f"{VERSION}\n")
            return 0
        if not arguments or arguments[0] not in _OPTIONS:
            raise TartError(f"Error: Unexpected argument '{' '.join(arguments[:1])}'\nUsage: tart <subcommand>", 64)  # noqa: TRY301
        verb, *rest = arguments
        options, names = _parsed(verb, rest)
        store = Store(Path(os.environ.get("TART_HOME") or f"{os.environ['HOME']}/.tart"))
        if verb not in {"pull", "clone"}:
            store.clear_tmp()
        return _COMMANDS[verb](store, options, names)
    except TartError as error:
        sys.stderr.write(f"{error}\n")
        return error.code


Options = dict[str, list[str]]


def _parsed(verb: str, words: list[str]) -> tuple[Options, list[str]]:
    options: Options = {}
    names: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name, equals, value = word.partition("=")
        if not word.startswith("-") or word == "--":
            names.append(word)
            if verb == "exec":
                return options, names + [other for other in waiting if not (other == "--" and len(names) == 1)]
        elif name not in _OPTIONS[verb]:
            raise TartError(f"Error: Unknown option '{word}'\nUsage: tart {verb}", 64)
        elif not _OPTIONS[verb][name]:
            options.setdefault(name, []).append("")
        elif equals or waiting:
            options.setdefault(name, []).append(value if equals else waiting.pop(0))
        else:
            raise TartError(f"Error: Missing value for '{word}'\nUsage: tart {verb}", 64)
    return options, names


def _one(verb: str, names: list[str], count: int = 1) -> list[str]:
    if len(names) != count:
        problem = f"Unexpected argument '{names[-1]}'" if len(names) > count else "Missing expected argument '<name>'"
        raise TartError(f"Error: {problem}\nUsage: tart {verb}", 64)
    return names


def _number(options: Options, name: str, default: float) -> float:
    try:
        return float(options[name][-1]) if name in options else default
    except ValueError:
        raise TartError(f"Error: The value '{options[name][-1]}' is invalid for '{name}'", 64) from None


def _list(store: Store, options: Options, names: list[str]) -> int:
    _one("list", names, 0)
    source = options.get("--source", [""])[-1]
    entries = [_entry("local", vm.name, vm, store) for vm in store.all_vms()] if source in {"", "local"} else []
    if source in {"", "oci"}:
        entries += [_entry("OCI", name, vm, store) for name, vm in images.all_images(store)]
    if "--quiet" in options or "-q" in options:
        sys.stdout.write("".join(f"{entry['Name']}\n" for entry in entries))
    elif options.get("--format", ["text"])[-1] == "json":
        sys.stdout.write(json.dumps(entries, indent=2) + "\n")
    else:
        sys.stdout.write("Source Name Disk Size State\n")
        sys.stdout.write("".join(f"{e['Source']} {e['Name']} {e['Disk']} {e['Size']} {e['State']}\n" for e in entries))
    return 0


def _state(vm: Vm, store: Store) -> str:
    state = vm.state
    return "stopped" if state == "running" and store.world.get("wrong_state", False) else state


def _entry(source: str, name: str, vm: Vm, store: Store) -> dict:
    state = _state(vm, store)
    accessed = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(vm.folder.stat().st_mtime))
    size = {"Disk": vm.config["diskSize"], "Size": int(vm.size())}
    return {"Source": source, "Name": name, **size, "Accessed": accessed, "Running": state == "running", "State": state}


def _get(store: Store, options: Options, names: list[str]) -> int:
    vm = store.vm(_one("get", names)[0])
    config, state = vm.config, _state(vm, store)
    shown = {
        "OS": config["os"],
        "CPU": config["cpuCount"],
        "Memory": config["memorySize"] >> 20,
        "Disk": config["diskSize"],
    }
    # A string, unlike in `list`: that broke a parser once, and every probe with it.
    shown |= {"DiskFormat": "raw", "Size": f"{vm.size():.3f}", "Display": "1024x768", "Running": state == "running"}
    shown["State"] = state
    as_json = options.get("--format", ["text"])[-1] == "json"
    sys.stdout.write(json.dumps(shown, indent=2) + "\n" if as_json else f"{' '.join(map(str, shown.values()))}\n")
    return 0


def _pull(store: Store, options: Options, names: list[str]) -> int:  # noqa: ARG001
    images.pull(store, _one("pull", names)[0])
    return 0


def _fqn(store: Store, options: Options, names: list[str]) -> int:  # noqa: ARG001
    sys.stdout.write(images.fully_qualified(store, _one("fqn", names)[0]) + "\n")
    return 0


def _clone(store: Store, options: Options, names: list[str]) -> int:  # noqa: ARG001
    source, name = _one("clone", names, 2)
    here = images.cached(store, source) if images.is_remote(source) else store.vm(source)
    found = here or images.pull(store, source)
    os.utime(found.folder)
    store.create(name, found.folder)
    return 0


def _set(store: Store, options: Options, names: list[str]) -> int:
    vm = store.vm(_one("set", names)[0])
    config = vm.config
    config["cpuCount"] = int(_number(options, "--cpu", config["cpuCount"]))
    config["memorySize"] = int(_number(options, "--memory", config["memorySize"] >> 20)) << 20
    disk = int(_number(options, "--disk-size", config["diskSize"]))
    if disk < config["diskSize"]:
        raise TartError(f"new disk size of {disk} GB should be larger than the current disk size")
    config["diskSize"] = disk
    if "--random-mac" in options:
        config["macAddress"] = random_mac()
    if "--random-serial" in options:
        config["ecid"] = os.urandom(8).hex()
    vm.write_config(config)
    return 0


def _run(store: Store, options: Options, names: list[str]) -> int:
    vm = store.vm(_one("run", names)[0])
    shares = dict(_share(word) for word in options.get("--dir", []))
    for word in options.get("--root-disk-opts", []):
        if _DISK_OPTIONS.sub("", word):
            raise TartError(f"Error: The value '{word}' is invalid for '--root-disk-opts'", 64)
    with store.locked("slots"):
        others = sum(1 for other in store.all_vms() if other.name != vm.name and other.runner_pid())
        # Held by this process until it ends, however it ends. Nothing below opens the file again.
        config = vm.config
        lock = os.open(vm.folder / "config.json", os.O_RDWR)
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TartError(f'VM "{vm.name}" is already running!', 2) from None
        if not store.world.get("session", True):
            raise TartError(
                'Error: Error Domain=VZErrorDomain Code=-9 "The virtual machine failed to start." (HostKey)'
            )
        if others + int(store.world.get("leaked_slots", 0)) + _leaked(store).stat().st_size >= LIMIT:
            raise TartError("Error: The number of VMs exceeds the system limit (other running VMs: …)")
    wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
    guest = Guest(vm)
    boot_seconds = float(store.world.get("boot_seconds", 0))
    guest.boot(shares, boot_seconds=boot_seconds)
    guardian, life = guest.guard()
    _lease(store, config["macAddress"])
    deadline = time.monotonic() + float(store.world.get("dies_after", 10**9))
    login = None if store.world.get("guest_agent", True) else time.monotonic() + boot_seconds
    while True:
        now = time.monotonic()
        if login is not None and now >= login:
            login = None
            guest.start_launch_agents()
        if now >= deadline:
            received = signal.SIGUSR2
            break
        got = signal.sigtimedwait(wanted, max(0.0, min(deadline, login or deadline) - now))
        if got is not None and not (got.si_signo == signal.SIGINT and store.world.get("ignores_stop", False)):
            received = got.si_signo
            break
    os.close(life)
    os.waitpid(guardian, 0)
    if store.world.get("leaks_seats", False):
        with _leaked(store).open("ab") as file:
            file.write(b".")
    if received == signal.SIGUSR2:
        # The exit code says nothing: this line is all that tells a crash from a halt.
        sys.stdout.write("Virtual machine stopped due to error: Internal Virtualization error.\n")
    return 0


def _leaked(store: Store) -> Path:
    """One byte for each seat that the kernel did not get back since the Mac booted."""
    path = store.home / "simulated" / "leaked-seats"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def _share(word: str) -> tuple[str, str]:
    name, _, rest = word.partition(":")
    path = rest.removesuffix(":ro")
    if not rest or not Path(path).is_dir():
        raise TartError(f'invalid --dir value "{word}": no such directory')
    return name, path


def _lease(store: Store, mac: str) -> None:
    """The DHCP server remembers by MAC, for a day; so `ip` answers for dead VMs, too."""
    with store.locked("leases"):
        path = store.home / "simulated" / "dhcpd_leases.json"
        path.parent.mkdir(exist_ok=True)
        leases = json.loads(path.read_text()) if path.exists() else {}
        leases.setdefault(mac, f"192.168.64.{2 + int(hashlib.sha256(mac.encode()).hexdigest(), 16) % 252}")
        path.write_text(json.dumps(leases))


def _ip(store: Store, options: Options, names: list[str]) -> int:
    vm = store.vm(_one("ip", names)[0])
    resolver = options.get("--resolver", ["dhcp"])[-1]
    path = store.home / "simulated" / "dhcpd_leases.json"
    until = time.monotonic() + _number(options, "--wait", 0)
    while True:
        leases = json.loads(path.read_text()) if path.exists() else {}
        address = leases.get(vm.config["macAddress"])
        up = vm.runner_pid() and Guest(vm).record.exists() and time.time() >= Guest(vm).known()[1]
        if address and (up or resolver == "dhcp"):
            sys.stdout.write(f"{address}\n")
            return 0
        if time.monotonic() >= until:
            raise TartError("no IP address found, is your VM running?")
        time.sleep(0.1)


def _exec(store: Store, options: Options, names: list[str]) -> int:
    if len(names) < 2:
        raise TartError("Error: Missing expected argument '<command> ...'\nUsage: tart exec", 64)
    vm = store.vm(names[0])
    if not vm.runner_pid():
        raise TartError(f'VM "{vm.name}" is not running', 2)
    guest = Guest(vm)
    agent = store.world.get("guest_agent", True) and guest.record.exists() and time.time() >= guest.known()[1]
    if not agent:
        raise TartError("Failed to connect to the VM using its control socket, is the Tart Guest Agent running?")
    if not {"-i", "-it"} & options.keys():
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
    child = guest.spawn(names[1:])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: os.kill(child, signal.SIGKILL))  # the agent ends what no process waits for
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def _stop(store: Store, options: Options, names: list[str]) -> int:
    vm = store.vm(_one("stop", names)[0])
    pid = vm.runner_pid()
    if not pid:
        raise TartError(f'VM "{vm.name}" is not running', 2)
    until = time.monotonic() + _number(options, "--timeout", _number(options, "-t", 30))
    os.kill(pid, signal.SIGINT)
    while vm.runner_pid() == pid:
        if time.monotonic() >= until:
            os.kill(pid, signal.SIGKILL)
            while vm.runner_pid() == pid:
                time.sleep(0.02)
            break
        time.sleep(0.02)
    return 0


def _delete(store: Store, options: Options, names: list[str]) -> int:  # noqa: ARG001
    if not names:
        raise TartError("Error: Missing expected argument '<name> ...'\nUsage: tart delete", 64)
    for name in names:
        vm = images.cached(store, name) if images.is_remote(name) else store.vm(name)
        if vm is None:
            raise TartError(f'the specified VM "{name}" does not exist', 2)
        if vm.runner_pid():
            raise TartError(f'VM "{name}" is running', 1)
        gone = store.tmp / f"{os.getpid()}-{time.time_ns()}"
        vm.folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
    return 0


def _prune(store: Store, options: Options, names: list[str]) -> int:
    _one("prune", names, 0)
    if not {"--older-than", "--space-budget"} & options.keys():
        raise TartError("Error: at least one pruning criteria must be specified\nUsage: tart prune", 64)
    older = _number(options, "--older-than", 0) if "--older-than" in options else None
    budget = _number(options, "--space-budget", 0) if "--space-budget" in options else None
    images.prune(store, older_than_days=older, budget_gb=budget)
    return 0


_COMMANDS: dict[str, Callable[[Store, Options, list[str]], int]] = {
    "list": _list,
    "get": _get,
    "pull": _pull,
    "clone": _clone,
    "set": _set,
    "run": _run,
    "stop": _stop,
    "delete": _delete,
    "ip": _ip,
    "exec": _exec,
    "fqn": _fqn,
    "prune": _prune,
}
