-- pause pauses a queue, or resumes it if it was paused with the same mark.
--
-- KEYS[1]  asynq's key of the paused queue
-- ARGV[1]  the mark that is written into it
-- ARGV[2]  1 to pause the queue, even if somebody else paused it; 0 to resume it
-- Result   what the key holds afterwards; '' when the queue is not paused
local held = redis.call('GET', KEYS[1])
if ARGV[2] == '1' then
  if held ~= ARGV[1] then redis.call('SET', KEYS[1], ARGV[1]) end
  return ARGV[1]
end
if held == ARGV[1] then
  redis.call('DEL', KEYS[1])
  return ''
end
return held or ''
