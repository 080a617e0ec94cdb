"""What a Mac is delivered with, as far as a bootstrap can tell."""

__all__ = ["FILES", "FOLDERS", "LINKS", "POWER", "SYSTEM_JOBS"]

FOLDERS = (
    "private",
    "private/etc",
    "private/etc/newsyslog.d",
    "private/etc/pf.anchors",
    "private/etc/sudoers.d",
    "private/etc/ssh",
    "private/tmp",
    "private/var",
    "private/var/log",
    "private/var/tmp",
    "private/var/db",
    "Library",
    "Library/LaunchDaemons",
    "Library/LaunchAgents",
    "Library/Preferences",
    "Library/Preferences/SystemConfiguration",
    "System",
    "System/Library",
    "System/Library/LaunchDaemons",
    "Users",
    "Users/{user}",
    "Users/{user}/.ssh",
    "Users/{user}/Library",
    "Users/{user}/Library/LaunchAgents",
    "Users/{user}/Library/Preferences",
    "Volumes",
    "opt",
    "usr",
    "usr/local",  # and nothing in it: a fresh image has no /usr/local/bin
)
"""Each after the one it is in."""

LINKS = {"etc": "private/etc", "tmp": "private/tmp", "var": "private/var"}

_PF_CONF = """\
#
# Default PF configuration file.
#
# This file contains the main ruleset, which gets automatically loaded
# at startup.  PF will not be automatically enabled, however.  Instead,
# each component which utilizes PF is responsible for enabling and disabling
# PF via -E and -X as documented in pfctl(8).
#
# Care must be taken to ensure that the main ruleset does not get flushed,
# as the nested anchors rely on the anchor point defined here. In addition,
# to the anchors loaded by this file, some system services would dynamically
# insert anchors into the main ruleset. These anchors will be added only when
# the system service is used and would removed on termination of the service.
#
# See pf.conf(5) for syntax.
#

#
# com.apple anchor point
#
scrub-anchor "com.apple/*"
nat-anchor "com.apple/*"
rdr-anchor "com.apple/*"
dummynet-anchor "com.apple/*"
anchor "com.apple/*"
load anchor "com.apple" from "/etc/pf.anchors/com.apple"
"""

_PF_APPLE = """\
#
# com.apple ruleset, referred to by the default /etc/pf.conf file.
#
anchor "200.AirDrop/*"
anchor "250.ApplicationFirewall/*"
"""

_SUDOERS = """\
Defaults env_reset
root ALL = (ALL) ALL
%admin ALL = (ALL) ALL
#includedir /private/etc/sudoers.d
"""

_SSH_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key><string>com.openssh.sshd</string>
  <key>ProgramArguments</key><array><string>/usr/sbin/sshd</string><string>-i</string></array>
</dict>
</plist>
"""

FILES = {
    "private/etc/pf.conf": _PF_CONF,
    "private/etc/pf.anchors/com.apple": _PF_APPLE,
    "private/etc/sudoers": _SUDOERS,
    "private/etc/hosts": "127.0.0.1\tlocalhost\n",
    "private/etc/ssh/sshd_config": "AuthorizedKeysFile .ssh/authorized_keys .ssh/scw_authorized_keys\n",
    "System/Library/LaunchDaemons/ssh.plist": _SSH_PLIST,
}

POWER = {"sleep": "10", "displaysleep": "10", "disksleep": "10", "womp": "1", "autorestart": "0", "powernap": "1"}

SYSTEM_JOBS = ("com.apple.loginwindow", "com.apple.WindowServer", "com.openssh.sshd", "com.apple.pfctl")
"""Jobs of the system that run from the first moment and have no file that a script could look at."""
