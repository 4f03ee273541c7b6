-- Put after common_needs.lua: ended jobs are bounded in number, those of each owner and all together. The oldest go, with all
-- that is kept of them, some at a time, in the step that records another one.
local FORGOTTEN_AT_ONCE = 8
-- The owner of jobs that this step records, its bounds, and how many they are.
local recorded, kept_in_all, kept_of_owner, more

-- The product that it stored, and what was stored for it: the sweep removes them.
local function give_up_matrices(job, at)
  if job.state == 'succeeded' and job.product_bytes == '0' then
    give_up_claim(product_of(job.id, job.attempt), job.owner, at)
  end
  for _, how, id in string.gmatch(needs_of(job), NEED) do
    if how == '+' then
      give_up_claim(id, job.owner, at)
    end
  end
end

-- How many of so many ended jobs in this index go, where `more` were recorded in this step.
local function forget_beyond(max_ended, index, ended, more)
  if ended < max_ended + FORGOTTEN_AT_ONCE then
    return 0
  end
  local at, going = now(), math.min(ended - max_ended, FORGOTTEN_AT_ONCE + more - 1)
  for _, id in ipairs(redis.call('ZRANGE', index, 0, going - 1)) do
    local job = read(id)
    if not job then
      write('ZREM', index, id)
    elseif not job.dependents then -- else they are to be settled first
      give_up_matrices(job, at)
      forget(job)
    end
  end
  return going
end

-- Whether so many ended jobs may be beyond a bound; how many they are. An owner has no more than there are.
local function are_too_many(max_ended, max_owner_ended)
  local ended = call('ZCARD', finished_key)
  return ended >= math.min(max_ended, max_owner_ended) + FORGOTTEN_AT_ONCE, ended
end

-- After jobs of one owner were recorded.
local function forget_oldest()
  if not recorded then
    return
  end
  local max_ended, max_owner_ended = tonumber(kept_in_all), tonumber(kept_of_owner)
  local _, ended = are_too_many(max_ended, max_owner_ended)
  local gone = 0
  if ended >= max_owner_ended + FORGOTTEN_AT_ONCE then
    local index = prefix .. 'finished:' .. recorded
    gone = forget_beyond(max_owner_ended, index, redis.call('ZCARD', index), more)
  end
  if gone == 0 then
    gone = forget_beyond(max_ended, prefix .. 'finished', ended, more)
  end
  recorded = nil
  if gone > 0 then
    carry_out() -- the next owner's are looked for where these are no more
  end
end

local function are_recorded(owner, max_ended, max_owner_ended, jobs)
  if recorded ~= owner then
    forget_oldest()
    recorded, kept_in_all, kept_of_owner, more = owner, max_ended, max_owner_ended, 0
  end
  more = more + jobs
end
