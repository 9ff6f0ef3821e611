#!/usr/bin/env bash
# container_trial.sh PREFIX WHEEL: the federation of docs/container/compose.yml without an engine for containers. Three
# roots have nothing but CPython of PREFIX (such as /usr/local), the wheel and /bin/sh. In each root an ordinary user runs
# the programs of the image, with processes and mounts of its own. The network is the machine's loopback. Needs root.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=$(realpath "$1") wheel=$(realpath "$2")
work=$(mktemp -d)
trap 'kill $(jobs -p) 2> /dev/null || true; wait; rm -rf "$work"' EXIT
PORT=7267 USER_ID=10001

image() { # ROOT: what the image of the Containerfile has
    local root=$1 site version
    version=$("$prefix/bin/python3" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    mkdir -p "$root"/{bin,dev,etc,proc,tmp,srv/server,srv/device-0,srv/device-1,var/lib/edgefl,usr/local/bin,usr/local/lib}
    cp -a "$prefix/bin/$version" "$root/usr/local/bin"
    cp -a "$prefix"/lib/libpython3*.so* "$root/usr/local/lib" 2> /dev/null || true
    tar c -C "$prefix/lib" --exclude=site-packages --exclude=test --exclude=__pycache__ "$version" | tar x -C "$root/usr/local/lib"
    site=$root/usr/local/lib/$version/site-packages
    "$prefix/bin/python3" -m pip install -q --disable-pip-version-check --target "$site" "$wheel[keys]"
    printf '#!/bin/sh\nexec /usr/local/bin/%s -m edgefl "$@"\n' "$version" > "$root/usr/local/bin/edgefl"
    cp docs/container/setup docs/container/begin_or_resume "$root/usr/local/bin"
    chmod +x "$root"/usr/local/bin/*
    cp -L /bin/sh "$root/bin/sh"
    cp -L "$(command -v cp)" "$(command -v rm)" "$(command -v mktemp)" "$(command -v cat)" "$(command -v grep)" "$root/bin"
    { find "$root" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec ldd {} + 2> /dev/null || true; } | # scripts have none
        grep -oE '[[:space:]]/(usr/)?lib(64)?/[^ ]+' | sort -u | xargs cp -L --parents -t "$root"
    mknod -m 666 "$root/dev/null" c 1 3
    echo "edgefl:x:$USER_ID:$USER_ID::/var/lib/edgefl:/bin/sh" > "$root/etc/passwd"
    echo "127.0.0.1 localhost" > "$root/etc/hosts"
    chmod 1777 "$root/tmp"
    chown -R $USER_ID:$USER_ID "$root/srv" "$root/var/lib/edgefl"
}

within() { # ROOT COMMAND...: as the user of the image
    local root=$1
    shift
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/var/lib/edgefl LD_LIBRARY_PATH=/usr/local/lib \
        EXPERIMENT="--clients 2 --per-round 2 --rounds 10" \
        unshare --mount --pid --fork --kill-child --mount-proc="$root/proc" chroot --userspec=$USER_ID:$USER_ID "$root" \
        /bin/sh -c 'cd /var/lib/edgefl && exec "$@"' sh "$@"
}

unset PYTHONPATH VIRTUAL_ENV
image "$work/server"
for id in 0 1; do cp -a "$work/server" "$work/device-$id"; done
echo "roots: $(du -sm "$work/server" | cut -f 1) MB each"
within "$work/server" setup localhost:$PORT /srv/server /srv/device-0 /srv/device-1
for name in server device-0 device-1; do
    cp -a "$work/server/srv/$name/." "$work/$name/var/lib/edgefl"
done
rm -r "$work/server/srv"
within "$work/server" begin_or_resume --host=127.0.0.1 --port=$PORT --keys=server.keys --tls-cert=server.pem \
    --tls-key=server-tls.key &
server=$!
healthy() { within "$work/server" sh -c "edgefl status run | grep -Eq 'listening on|over$'" 2> /dev/null; }
for _ in $(seq 60); do
    ! healthy || break
    kill -0 $server
    sleep .5
done
for id in 0 1; do within "$work/device-$id" edgefl agent agent.toml --runs 1 & done
wait
within "$work/server" edgefl status run
healthy && echo "the server and two devices have ended their run"
