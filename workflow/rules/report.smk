rule compare:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        published=[str(path) for path in published_files()],
    output:
        "reports/metrics.json",
    log:
        "logs/compare.log",
    params:
        studies=STUDIES,
        published=PARAMS.report.published,
    shell:
        "onelayer compare {params.studies} 2>&1 | tee {log}"


rule report:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        metrics="reports/metrics.json",
    output:
        "reports/report.html",
    log:
        "logs/report.log",
    params:
        studies=STUDIES,
        options=PARAMS.report.model_dump(mode="json"),
    shell:
        "onelayer report {params.studies} 2>&1 | tee {log}"
