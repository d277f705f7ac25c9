"""A real Slurm of two nodes on this machine, reachable from this machine alone."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol")

# Without the two NoInAddrAny settings the daemons, which trust everybody here, would listen on all
# addresses.
CONFIGURATION = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port1} CPUs=4
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={port2} CPUs=4
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=5 State=UP
"""


def reason_to_skip():
    """Why there can be no cluster here; None if there can."""
    missing = [name for name in PROGRAMS if not find(name)]
    if missing:
        return f"no {', '.join(missing)}: 'scripts/install-packages test' installs slurm-wlm"
    if not os.path.ismount("/sys/fs/cgroup"):
        return "slurmd does not start where nothing is mounted on /sys/fs/cgroup"
    for host in ("localhost", socket.gethostname()):
        try:
            socket.gethostbyname(host)
        except OSError:
            return f"slurmctld does not start where {host} has no address"
    return None if os.geteuid() == 0 else "only root can start Slurm's daemons"


def find(name):
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def free_ports(count):
    """Ports of this machine that nobody uses."""
    with contextlib.ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.environment = os.environ | {"SLURM_CONF": f"{folder}/slurm.conf"}
        port, port1, port2 = free_ports(3)
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=folder, port=port, port1=port1, port2=port2))
        (self.folder / "state").mkdir()

    def __enter__(self):
        try:
            self.run("slurmctld")
            for node in ("n1", "n2"):
                self.start_node(node)
            self.wait_for("two idle nodes",
                          lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D") == "2")
        except Exception:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in ("n1", "n2"):
            self.kill_node(node)
        self.kill_daemon(self.folder / "slurmctld.pid")

    def run(self, program, *arguments):
        done = subprocess.run([find(program), *arguments], env=self.environment, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, cwd=self.folder)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {arguments}: {done.stderr}")
        return done.stdout.strip()

    def wait_for(self, what, is_there, seconds=180):
        end = time.monotonic() + seconds
        while not is_there():
            if time.monotonic() > end:
                log = (self.folder / "slurmctld.log").read_text()
                raise TimeoutError(f"no {what} after {seconds} s\n{log[-3000:]}")
            time.sleep(0.1)

    def start_node(self, node):
        self.run("slurmd", "-N", node)

    def submit(self, *arguments):
        return re.fullmatch(r"(\d+)(;.*)?", self.run("sbatch", "--parsable", *arguments)).group(1)

    def wait_for_job(self, job):
        # 'sbatch --wait' would poll slowly.
        self.wait_for(f"end of job {job}", lambda: job not in self.queued())

    def queued(self):
        return {line.split("_")[0] for line in self.run("squeue", "-h", "-r", "-o", "%i").splitlines()}

    def lose_node(self, node):
        """The node dies, and the controller is told: its tasks have ended."""
        self.kill_node(node)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=killed")

    def kill_node(self, node):
        """The node's daemon and all that runs on it end at once, as if its power failed."""
        self.kill_daemon(self.folder / f"slurmd-{node}.pid")
        marks = (f"SLURM_CONF={self.folder}/slurm.conf".encode(), f"SLURMD_NODENAME={node}".encode())
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = (process / "environ").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if all(mark in variables for mark in marks):
                self.kill(int(process.name))

    def kill_daemon(self, pid_file):
        try:
            self.kill(int(pid_file.read_text()))
        except (OSError, ValueError):
            pass  # it never ran

    @staticmethod
    def kill(process):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
