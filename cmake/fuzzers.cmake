# fuzzers.cmake - every fuzz/fuzz_*.c as a libFuzzer program; `ninja fuzzers` builds them.

rt_library(libretrace_fuzz -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
add_custom_target(fuzzers)
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_sources)
    get_filename_component(name ${source} NAME_WE)
    rt_program(${name} libretrace_fuzz . ${name} ${source})
    target_include_directories(${name} PRIVATE src fuzz)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers ${name})
endforeach()
