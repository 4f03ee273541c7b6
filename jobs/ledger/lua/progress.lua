#!lua flags=allow-oom
local id, attempt, progress = unpack(ARGV, 2, 4)
local job = read_running(id, attempt)
if not job then
  return 0
end
job.version = int(job.version + 1)
set(job, 'progress', progress, 'version', job.version)
announce(job, 'progress', ',"progress":' .. progress)
carry_out()
return 1
