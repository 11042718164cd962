# shellcheck shell=bash
# disk.sh - stage 2: package tree + our files + agent -> ext4 image
#
# The tree is unpacked beside the result and turned into a file system by mkfs.ext4 -d: no loop device, no mount.

# Generators that find nothing here and never will; each would cost a process at every boot and daemon-reload. Those for init
# scripts and rc.local stay: packages and people still bring some.
MASKED_GENERATORS=(
	systemd-debug-generator
	systemd-getty-generator
	systemd-gpt-auto-generator
	systemd-hibernate-resume-generator
	systemd-run-generator
	systemd-ssh-generator
	systemd-system-update-generator
	systemd-tpm2-generator
)

# Rules about hardware that no guest has.
MASKED_UDEV_RULES=(
	60-autosuspend 60-cdrom_id 60-drm 60-evdev 60-fido-id 60-infiniband 60-input-id 60-persistent-alsa
	60-persistent-input 60-persistent-storage-mtd 60-persistent-storage-tape 60-persistent-v4l 60-sensor 70-camera
	70-joystick 70-memory 70-mouse 70-power-switch 70-touchpad 70-uaccess 71-seat 73-seat-late 75-probe_mtd
	78-sound-card 81-net-dhcp 90-iocost 96-e2scrub
)

disk_unpack() {
	mkdir "$2"
	tar -x -f "$1" -C "$2" --numeric-owner --xattrs --xattrs-include='*'
}

# link_null DIRECTORY NAME...
link_null() {
	local dir=$1 name
	shift
	mkdir -p "$dir"
	for name in "$@"; do
		ln -sfn /dev/null "$dir/$name"
	done
}

# Opening one of these nodes loads its module (tun, loop, ...). Lines "module name c10:200" -> tmpfiles.d.
static_nodes() {
	awk '/^#/ { next }
	     { if (split($2, dir, "/") > 1 && !seen[dir[1]]++) print "d /dev/" dir[1] " 0755 - - -"
	       print substr($3, 1, 1) "! /dev/" $2 " 0600 - - - " substr($3, 2) }' "$@"
}

# disk_settle TREE: our files, the agent, and what must not be in an image
disk_settle() {
	local tree=$1 units ring
	# through tar: new files belong to root whoever owns the clone, and modes come from the executable bit alone
	tar -c -C "$here/overlay" --owner=0 --group=0 --mode='u=rwX,go=rX' --mtime="@$EPOCH" . |
		tar -x -C "$tree" --numeric-owner --no-overwrite-dir
	chmod 0440 "$tree/etc/sudoers.d/pando"
	install -D -m 0755 "$PANDO_AGENT_BIN" "$tree/usr/lib/pando/pando-agent"
	ln -sfn ../lib/pando/pando-agent "$tree/usr/bin/pando" # under that name it is "pando self"
	install -D -m 0644 "$ready_lib" "$tree/usr/lib/pando/libpando-ready.so"
	install -D -m 0644 -t "$tree/usr/lib/pando/kernels" "$kernels"/*
	[[ $(sha_of "$tree/usr/lib/pando/pando-agent") == "$agent_sha" &&
		$(sha_of "$tree/usr/lib/pando/libpando-ready.so") == "$ready_sha" ]] ||
		{ echo "$PANDO_AGENT_BIN changed during the build" >&2 && return 1; }

	mapfile -t units < <(sed 's/#.*//' "$here/masked.list" | xargs -n 1)
	link_null "$tree/etc/systemd/system" "${units[@]}"
	link_null "$tree/etc/systemd/system-generators" "${MASKED_GENERATORS[@]}"
	link_null "$tree/etc/udev/rules.d" "${MASKED_UDEV_RULES[@]/%/.rules}"
	link_null "$tree/etc/systemd/network" 99-default.link # eth0 stays eth0
	link_null "$tree/etc/tmpfiles.d" systemd-nologin.conf
	rm -rf "${tree:?}"/etc/systemd/system/{getty,timers}.target.wants \
		"$tree"/etc/systemd/system/multi-user.target.wants/e2scrub_reap.service "$tree"/etc/modules-load.d/modules.conf
	# on demand only: the bus by its socket, logind by the bus
	rm -f "$tree"/usr/lib/systemd/system/multi-user.target.wants/{dbus,systemd-logind}.service
	static_nodes "$tree"/usr/lib/modules/*/modules.devname >"$tree/usr/lib/tmpfiles.d/pando-nodes.conf"
	ln -sfn /usr/lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"
	mkdir -p "$tree/etc/systemd/system/multi-user.target.wants"
	ln -sfn -t "$tree/etc/systemd/system/multi-user.target.wants" \
		/usr/lib/systemd/system/pando-agent.service /usr/lib/systemd/system/pando-network.service

	rm -f "$tree"/etc/apt/sources.list "$tree"/etc/apt/sources.list.d/* "$tree"/etc/apt/apt.conf.d/99mmdebstrap
	ring=/usr/share/keyrings/debian-archive-keyring.gpg
	[[ -e $tree$ring ]] || ring=${ring%.gpg}.pgp
	host_sources "$ring" >"$tree/etc/apt/sources.list.d/debian.sources"
	host_apt_options guest >"$tree/etc/apt/apt.conf.d/90pando"

	cp "$tree/etc/apt/sources.list.d/debian.sources" "$tree/usr/lib/pando/" # what a mirror of the site replaces (server/vm/site.c)
	mkdir -p "$tree"/usr/share/man/man{1..9}

	# empty, not absent: a new id at the first boot, without the rest of systemd's first-boot work
	: >"$tree/etc/machine-id"
	mkdir -p "$tree/var/lib/dbus"
	ln -sfn /etc/machine-id "$tree/var/lib/dbus/machine-id"
	rm -rf "${tree:?}"/boot/* "$tree"/vmlinuz* "$tree"/initrd* "$tree"/var/log/* "$tree"/var/cache/apt/*.bin \
		"$tree"/tmp/* "$tree"/run/*
	touch "$tree/etc/.updated" "$tree/var/.updated"
}

# disk_mkfs TREE OUT: inode tables and journal are declared zero here, so no kernel thread writes them in the guest;
# a small journal keeps the disk layers of forks small.
disk_mkfs() {
	local uuid=${hash:0:8}-${hash:8:4}-4${hash:13:3}-8${hash:17:3}-${hash:20:12}
	truncate -s "${disk_gb}G" "$2"
	E2FSPROGS_FAKE_TIME=$EPOCH mkfs.ext4 -q -F -d "$1" -L pando -U "$uuid" -m 0 -J size=32 \
		-E "hash_seed=$uuid,lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0" "$2"
	fallocate --dig-holes "$2"
}
