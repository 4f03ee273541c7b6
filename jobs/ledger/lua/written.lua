#!lua flags=allow-oom
-- Changes nothing. Redis answers a change before it knows whether its append-only file took it, and refuses the next
-- script that may write if not. While the file is being synced, Redis may hold later changes back in its memory.
-- Returns the bytes that are not in the file yet, and whether a sync holds them back; `jobs.redis.written` concludes.
local said = redis.pcall('INFO', 'persistence')
if type(said) ~= 'string' then  -- this user may not ask
    return {0, 0}
end
local function number(name)
    return tonumber(string.match(said, name .. ':(%d+)') or 0)
end
return {number('aof_buffer_length'), number('aof_pending_bio_fsync')}
