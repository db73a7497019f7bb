rule prepare:
    input:
        lambda wildcards: [str(path) for path in source_files(study(wildcards.study))],
    output:
        "data/{study}/problems.json",
    log:
        "logs/{study}/prepare.log",
    resources:
        **asked("prepare"),
    params:
        settings=lambda wildcards: fingerprint.digest(
            fingerprint.problems_payload(study(wildcards.study), {})
        ),
    shell:
        "onelayer prepare {wildcards.study} 2>&1 | tee {log}"
