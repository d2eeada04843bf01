# fuzzers.cmake - every fuzz/fuzz_*.c as a libFuzzer program; `ninja fuzzers` builds them.

rt_library(libretrace_fuzz -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
rt_parts(retrace_parts_fuzz libretrace_fuzz)
add_custom_target(fuzzers)
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    rt_program(${name} retrace_parts_fuzz . ${name} ${source})
    target_include_directories(${name} PRIVATE src fuzz)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
endforeach()
