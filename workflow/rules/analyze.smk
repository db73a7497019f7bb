rule analyze:
    input:
        rates=lambda wildcards: rates(wildcards.study),
        records=lambda wildcards: receipts(wildcards, "evaluated"),
        weights=lambda wildcards: receipts(wildcards, "weighed", grid.is_weighed),
        suite=suite_receipts,
    output:
        report(
            "data/{study}/analysis.json",
            caption="../report/analysis.rst",
            category="Analyses",
            labels={"study": "{study}"},
        ),
    log:
        "logs/{study}/analyze.log",
    resources:
        **asked("analyze"),
    params:
        recipe=fingerprint.ANALYSIS_RECIPE,
        settings=lambda wildcards: study(wildcards.study).analysis.model_dump(
            mode="json"
        ),
    shell:
        "onelayer analyze {wildcards.study} 2>&1 | tee {log}"


rule study_page:
    input:
        "data/{study}/analysis.json",
    output:
        report(
            "data/{study}/report.html",
            caption="../report/study_page.rst",
            category="Pages",
            labels={"study": "{study}"},
        ),
    log:
        "logs/{study}/report.log",
    shell:
        "onelayer report {wildcards.study} --alone 2>&1 | tee {log}"
