# Sourced by `test` and by the scripts beside this: which tools from the registries the gate uses, in which versions, and how
# it gets them. They are installed once, into a cache outside this directory.

tools=${XDG_CACHE_HOME:-$HOME/.cache}/wink-tools

deny_version=0.20.2
node_version=24.21.0
conformance_version=0.2.0-alpha.12
python_sdk_version=2.3.0
typescript_sdk_version=2.4.0
openai_sdk_version=3.49.0
anthropic_sdk_version=2.8.0
litellm_version=1.106.2
inspector_version=2.12.0
claude_code_version=2.1.325
codex_version=0.166.0
llama_server_version=2026.10.11549
small_model_version=0.1.2
original_version=0.27.0
pydantic_ai_version=2.66.0
langgraph_version=1.2.20
langgraph_sqlite_version=3.1.2

# cargo_tool, python_tool, wheel_tool (without dependencies) and npm_tool NAME PACKAGE VERSION: have a package in a directory of its
# own, and set `place` to it. A Python tool may name what else it is to have, as PACKAGE==VERSION.
cargo_tool() { installed cargo_install "$@"; }
python_tool() { installed pip_install "$@"; }
wheel_tool() { installed wheel_install "$@"; }
npm_tool() { installed npm_install "$@"; }

# Puts the Node that the tools want in front of the machine's, which is often older.
use_node() { npm_tool node node "$node_version" && export PATH="$place/node_modules/.bin:$PATH"; }

# The file `complete` is made last: half an installation is none. Whoever comes at the same time waits.
installed() {
    local installer=$1 name=$2 package=$3 version=$4
    local more=("${@:5}")
    place=$tools/$name-$version
    [ -e "$place/complete" ] && return
    mkdir -p "$tools" || return 1
    (
        flock 9 || exit 1
        [ -e "$place/complete" ] && exit
        echo "    $package $version is missing; installing it into $place (some minutes, once)"
        rm -rf "$place" && mkdir "$place" && "$installer" "$place" "$package" "$version" "${more[@]}" && touch "$place/complete" && exit
        echo "    $package $version cannot be installed" >&2
        exit 1
    ) 9>"$tools/lock"
}

cargo_install() { cargo install --locked --quiet --root "$1" "$2@$3"; }

pip_install() { "${python:-python3}" -m venv "$1" && "$1/bin/pip" install --quiet "$2==$3" "${@:4}"; }

wheel_install() { "${python:-python3}" -m venv "$1" && "$1/bin/pip" install --quiet --no-deps --only-binary :all: "$2==$3"; }

npm_install() {
    command -v npm >/dev/null || { echo "    npm is missing: install Node.js, and run this again" >&2; return 1; }
    echo '{"private":true}' >"$1/package.json" &&
        (cd "$1" && npm install --loglevel error --no-progress --no-fund --no-audit "$2@$3" >/dev/null)
}
